import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonValue } from '@triplock/payments';
import { validateWebhookEndpoint } from './webhook-endpoint.ts';

function pointersOf(json: JsonValue | undefined): string[] | string {
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

test('every field that is wrong, unknown or missing is pointed at', () => {
  assert.deepEqual(pointersOf(undefined), ['#']);
  for (const json of [null, [], 'https://partner.example/', 7]) {
    assert.deepEqual(pointersOf(json), ['#'], JSON.stringify(json));
  }
  assert.deepEqual(pointersOf({}), ['#/url']);
  assert.deepEqual(pointersOf({ url: 'https://partner.example/', secret: 'x' }), ['#/secret']);
  assert.deepEqual(pointersOf({ url: 7, 'a/b': 1 }), ['#/url', '#/a~1b']);
  const many = Object.fromEntries(Array.from({ length: 80 }, (_, n) => [`field-${n}`, n]));
  assert.equal(pointersOf(many).length, 50);
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
    assert.deepEqual(pointersOf({ url }), ['#/url'], JSON.stringify(url.slice(0, 40)));
  }
});
