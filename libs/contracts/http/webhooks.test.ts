import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonValue } from '@triplock/payments';
import { validateRedeliveryRequest } from './webhook-delivery.ts';
import { validateWebhookEndpoint } from './webhook-endpoint.ts';

function wrongInEndpoint(json: JsonValue | undefined): string[] | string {
  const validated = validateWebhookEndpoint(json);
  return validated.outcome === 'valid'
    ? validated.text
    : validated.errors.map(({ pointer }) => pointer);
}

test('a URL is kept as it was sent', () => {
  const url = 'https://Partner.example:8443/hooks?token=a%20b';
  const validated = validateWebhookEndpoint({ url });
  assert.ok(validated.outcome === 'valid');
  assert.equal(validated.text, url);
  assert.equal(validated.url.hostname, 'partner.example');
});

test('of an endpoint every field that is wrong, unknown or missing is pointed at', () => {
  assert.deepEqual(wrongInEndpoint(undefined), ['#']);
  for (const json of [null, [], 'https://partner.example/', 7]) {
    assert.deepEqual(wrongInEndpoint(json), ['#'], JSON.stringify(json));
  }
  assert.deepEqual(wrongInEndpoint({}), ['#/url']);
  assert.deepEqual(wrongInEndpoint({ url: 'https://partner.example/', secret: 'x' }), ['#/secret']);
  assert.deepEqual(wrongInEndpoint({ url: 7, 'a/b': 1 }), ['#/url', '#/a~1b']);
  const many = Object.fromEntries(Array.from({ length: 80 }, (_, n) => [`field-${n}`, n]));
  assert.equal(wrongInEndpoint(many).length, 50);
});

test('what is no absolute URL, or no single one to look at, is refused', () => {
  for (const url of [
    '',
    'partner.example/hooks',
    '/hooks',
    'https://',
    'https://[::1',
    'https://partner.example:99999/',
    ' https://partner.example/',
    'https://partner.example/a b',
    'https://partner.example/\n',
    'https://part\tner.example/',
    'https://partner.example/\u00a0',
    `https://partner.example/${'x'.repeat(2_000)}`,
  ]) {
    assert.deepEqual(wrongInEndpoint({ url }), ['#/url'], JSON.stringify(url.slice(0, 40)));
  }
});

function wrongInRedelivery(json: JsonValue | undefined): string[] {
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

test('of a redelivery every field that is wrong, unknown or missing is pointed at', () => {
  for (const json of [undefined, null, [], 7, '2026-01-02T03:04:05Z']) {
    assert.deepEqual(wrongInRedelivery(json), ['#'], JSON.stringify(json));
  }
  assert.deepEqual(wrongInRedelivery({}), ['#/since']);
  const since = '2026-01-02T03:04:05Z';
  assert.deepEqual(wrongInRedelivery({ since, limit: 5 }), ['#/limit']);
  assert.deepEqual(wrongInRedelivery({ since, status: 'done', until: null }), [
    '#/status',
    '#/until',
  ]);
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
    assert.deepEqual(wrongInRedelivery({ since }), ['#/since'], JSON.stringify(since));
    const until = { since: '2026-01-02T03:04:05Z', until: since };
    assert.deepEqual(wrongInRedelivery(until), ['#/until'], JSON.stringify(since));
  }
});
