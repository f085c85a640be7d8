import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonValue } from '@triplock/payments';
import { validateRedeliveryRequest } from './webhook-delivery.ts';
import {
  validateEndpointChanges,
  validateNewEndpoint,
  validateWebhookEndpoint,
} from './webhook-endpoint.ts';
import fc from 'fast-check';
import { transactionContracts } from '../kinds.ts';

function wrongInEndpoint(json: JsonValue | undefined): string[] | string {
  const validated = validateWebhookEndpoint(json);
  return validated.outcome === 'valid'
    ? validated.asked.url
    : validated.errors.map(({ pointer }) => pointer);
}

test('a URL is kept as it was sent', () => {
  const url = 'https://Partner.example:8443/hooks?token=a%20b';
  const validated = validateWebhookEndpoint({ url });
  assert.ok(validated.outcome === 'valid');
  assert.equal(validated.asked.url, url);
  assert.equal(validated.url!.hostname, 'partner.example');
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

test('of what an endpoint wants, and of its note, each wrong field is pointed at', () => {
  const url = 'https://partner.example/';
  for (const [json, ...pointers] of [
    [{ url }],
    [{ url, enabled_events: ['*'], description: '' }],
    [{ url, enabled_events: ['refund.failed', 'payment.succeeded'] }],
    [{ enabled_events: ['*'] }, '#/url'],
    [{ url, enabled_events: [] }, '#/enabled_events'],
    [{ url, enabled_events: '*' }, '#/enabled_events'],
    [{ url, enabled_events: ['*', 'refund.failed'] }, '#/enabled_events'],
    [{ url, enabled_events: ['refund.failed', 'refund.failed'] }, '#/enabled_events'],
    [{ url, enabled_events: ['refund.made'] }, '#/enabled_events'],
    [{ url, enabled_events: null }, '#/enabled_events'],
    [{ url, description: null }, '#/description'],
    [{ url, description: 'a\u0007b' }, '#/description'],
    [{ url, description: 'x'.repeat(201) }, '#/description'],
    [{ url: '/hooks', enabled_events: ['*', 'refund.failed'] }, '#/url', '#/enabled_events'],
    [{ url, id: 'mine' }, '#/id'],
  ] as const) {
    const made = validateNewEndpoint(json);
    const found = made.outcome === 'invalid' ? made.errors.map(({ pointer }) => pointer) : [];
    assert.deepEqual(found, pointers, JSON.stringify(json));
  }
  const changes = (json: JsonValue | undefined) => {
    const validated = validateEndpointChanges(json);
    return validated.outcome === 'invalid' ? validated.errors.map(({ pointer }) => pointer) : [];
  };
  assert.deepEqual(changes({ description: null }), []);
  assert.deepEqual(changes({ enabled_events: ['*'] }), []);
  assert.deepEqual(changes({}), ['#']);
  assert.deepEqual(changes(undefined), ['#']);
  assert.deepEqual(changes({ url: null, secret: 'x' }), ['#/url', '#/secret']);
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

test('an empty object asks for all that is left', () => {
  assert.deepEqual(transactionContracts.refund.validate({}), {
    outcome: 'valid',
    details: {},
    body: {},
  });
});

test('amount and reason are kept as they were sent, up to their limits', () => {
  for (const body of [
    { amount: 1 },
    { amount: 999_999_999_999, reason: '😀'.repeat(200) },
    { reason: '' },
  ]) {
    const { amount, ...rest } = body as { amount?: number; reason?: string };
    const details = { ...(amount === undefined ? {} : { amount: BigInt(amount) }), ...rest };
    assert.deepEqual(transactionContracts.refund.validate(body), {
      outcome: 'valid',
      details,
      body,
    });
  }
});

const control = ['\0', '\u001f', '\u007f', '\u0080', '\u009f', '\t', '\r', '\n'];
const wrong: readonly [what: string, body: JsonValue | undefined, pointers: string[]][] = [
  ['no body', undefined, ['#']],
  ['null', null, ['#']],
  ['an array', [{}], ['#']],
  ['a number', 5, ['#']],
  ['an amount of 0', { amount: 0 }, ['#/amount']],
  ['a negative amount', { amount: -1 }, ['#/amount']],
  ['an amount above the limit', { amount: 1_000_000_000_000 }, ['#/amount']],
  ['a fraction', { amount: 1.5 }, ['#/amount']],
  ['an amount as text', { amount: '1' }, ['#/amount']],
  ['an amount of null', { amount: null }, ['#/amount']],
  ['201 characters of reason', { reason: 'r'.repeat(201) }, ['#/reason']],
  ['a reason of null', { reason: null }, ['#/reason']],
  ['a currency', { amount: 1, currency: 'EUR' }, ['#/currency']],
  ['a field that objects inherit', { constructor: 1 }, ['#/constructor']],
  ['all of them', { amount: 0, reason: 1, x: 1 }, ['#/amount', '#/reason', '#/x']],
  ...control.map((character): [string, JsonValue, string[]] => {
    const name = `U+${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    return [`${name} in a reason`, { reason: character }, ['#/reason']];
  }),
];

for (const [what, body, pointers] of wrong) {
  test(`${what} is refused and pointed at`, () => {
    const result = transactionContracts.refund.validate(body);
    assert.deepEqual(
      result.outcome === 'invalid' && result.errors.map((error) => error.pointer),
      pointers,
    );
  });
}

test('a request without a body gets an answer that says how to ask for everything', () => {
  const result = transactionContracts.refund.validate(undefined);
  assert.match(
    result.outcome === 'invalid' ? result.errors[0]!.detail : '',
    /`\{\}` gives back all/,
  );
});

test('any JSON gets an answer, and what is refused is always pointed at', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (body) => {
      const result = transactionContracts.refund.validate(body);
      assert.ok(result.outcome === 'valid' || result.errors.length > 0);
    }),
  );
});
