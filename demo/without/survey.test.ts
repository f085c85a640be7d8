import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Answer } from '../partner.ts';
import { takenForNew, type Exchange } from './survey.ts';

function anExchange(answer: Partial<Answer>, amount = 2_500, key = 'a key'): Exchange {
  const rest = { body: '', location: null, retryAfterSeconds: undefined, tookMs: 1 };
  const given = { status: 202, replayed: false, ...rest, ...answer };
  return { partner: 'acme', key, body: { amount, currency: 'EUR' }, answer: given };
}

test('a request that was taken for new under a used key escaped, whatever it asks for', () => {
  const [escape, ...more] = takenForNew([
    anExchange({}),
    anExchange({}),
    anExchange({}, 2_600),
    anExchange({}, 2_500, 'another key'),
  ]);
  assert.deepEqual(more, []);
  assert.equal(escape!.duplicates, 2);
  assert.match(escape!.what, /25.00 EUR taken for new .*; 26.00 EUR accepted under a used key/);
});

test('a replay, a refusal and "ask again" are what guard 1 is for', () => {
  const answers = [{ status: 503 }, {}, { replayed: true }, { status: 409 }, { status: 422 }];
  assert.deepEqual(takenForNew(answers.map((answer) => anExchange(answer))), []);
});
