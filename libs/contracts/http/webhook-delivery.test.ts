import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonValue } from '@triplock/payments';
import { validateRedeliveryRequest } from './webhook-delivery.ts';

function pointersOf(json: JsonValue | undefined): string[] {
  const validated = validateRedeliveryRequest(json);
  return validated.outcome === 'valid' ? [] : validated.errors.map(({ pointer }) => pointer);
}

test('what is asked is taken as it was sent', () => {
  for (const body of [
    { since: '2026-01-02T03:04:05Z' },
    { since: '2024-02-29T23:59:59.123456789+14:00', until: '2026-01-02T00:00:00-13:45' },
    { since: '2026-01-02T03:04:05.000001Z', status: 'failed' },
  ]) {
    assert.deepEqual(validateRedeliveryRequest(body), { outcome: 'valid', asked: body, body });
  }
});

test('every field that is wrong, unknown or missing is pointed at', () => {
  for (const json of [undefined, null, [], 7, '2026-01-02T03:04:05Z']) {
    assert.deepEqual(pointersOf(json), ['#'], JSON.stringify(json));
  }
  assert.deepEqual(pointersOf({}), ['#/since']);
  const since = '2026-01-02T03:04:05Z';
  assert.deepEqual(pointersOf({ since, limit: 5 }), ['#/limit']);
  assert.deepEqual(pointersOf({ since, status: 'done', until: null }), ['#/status', '#/until']);
});

test('what is no moment that RFC 3339 can write is refused', () => {
  for (const since of [
    '',
    '2026-01-02',
    '2026-01-02T03:04Z',
    '2026-01-02T03:04:05',
    '2026-01-02 03:04:05Z',
    '2026-01-02T24:00:00Z',
    '2026-01-02T23:59:60Z',
    '2026-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '0000-01-01T00:00:00Z',
    '2026-01-02T03:04:05.Z',
    '2026-01-02T03:04:05+15:00',
    '2026-01-02T03:04:05+14:30',
    '2026-01-02T03:04:05Z\n',
    1_767_323_045,
  ]) {
    assert.deepEqual(pointersOf({ since }), ['#/since'], JSON.stringify(since));
    const until = { since: '2026-01-02T03:04:05Z', until: since };
    assert.deepEqual(pointersOf(until), ['#/until'], JSON.stringify(since));
  }
});
