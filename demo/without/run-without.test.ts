import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from '@triplock/command';
import { allScenarios } from '../scenarios/all.ts';
import type { Answer } from '../partner.ts';
import { chooseGuard, missingGuards } from './missing-guards.ts';
import { renderWithout, type WithoutReport } from './run-without.ts';
import { takenForNew, type Exchange } from './survey.ts';

const report: WithoutReport = {
  without: 'ledger',
  scenario: 'kafka-replayed',
  failure: 'the whole Kafka topic is replayed',
  did: [],
  survey: {
    records: 1,
    rows: 2,
    entries: 2,
    conflicts: 0,
    events: 2,
    copies: 2,
    inboxRows: 1,
    deliveries: 1,
    webhooks: 1,
    webhookIds: 1,
  },
  guards: { claims: '1 request', ledger: '2 rows', inbox: '1 inbox row', webhook: '1 webhook' },
  escaped: [{ id: 'an-id', duplicates: 1, what: '2 rows: 50.00 EUR instead of 25.00 EUR' }],
  duplicates: 1,
  complaint: 'broken promise: nothing changes; saw {"rows":2}',
  tookMs: 1_234,
};

test('what escaped is shown one by one, behind what each guard saw', () => {
  assert.deepEqual(renderWithout(report), [
    '   guard 1 claims  1 request',
    '   guard 2 ledger  taken away: 2 rows',
    '   guard 3 inbox   1 inbox row',
    '   webhook         1 webhook',
    '   1 duplicate escaped in 1.2 s',
    '     an-id: 2 rows: 50.00 EUR instead of 25.00 EUR',
    '   broken promise: nothing changes',
    '   without-ledger is dropped: processes, database, topics, claims',
  ]);
});

test('it is said when the other guards let nothing escape, and when nothing was tried', () => {
  const { complaint, ...held } = { ...report, escaped: [], duplicates: 0 };
  assert.match(renderWithout(held).join('\n'), /✔ none escaped: the other guards held in 1.2 s/);
  const failed = renderWithout({ ...held, complaint: complaint! }).join('\n');
  assert.match(failed, /✘ none escaped, and the scenario did not hold in 1.2 s/);
});

test('every guard can be taken away, and has a scenario that shows what it is for', () => {
  assert.deepEqual(
    missingGuards.map(({ name }) => name),
    ['claims', 'ledger', 'inbox'],
  );
  for (const [index, { scenario }] of missingGuards.entries()) {
    const shown = allScenarios.find(({ name }) => name === scenario);
    assert.match(shown!.absorbedBy, new RegExp(`^guard ${index + 1}`));
  }
});

test('a guard that there is not is refused with the names of those that there are', () => {
  assert.equal(chooseGuard('inbox').name, 'inbox');
  assert.throws(
    () => chooseGuard('outbox'),
    (error) => error instanceof UsageError && /claims, ledger, inbox/.test(error.message),
  );
});

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
