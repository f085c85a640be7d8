import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditReport } from '@triplock/demo';
import { judgeRun, type Evidence } from './judge-run.ts';

type Counts = Partial<AuditReport['counts']>;

const noneAtGuards = { atClaims: 0, atLedger: 0, atInbox: 0 };

function auditOf(counts: Counts, amount: number, drift: AuditReport['drift'] = []): AuditReport {
  const accepted = { count: 0, amount };
  return { counts, drift, sums: [{ accepted }] } as unknown as AuditReport;
}

/** Ten accepted payments of 100 each, two duplicates caught, and one key that was never clear. */
function aRun(changed: { tallies?: object; counts?: Counts; amount?: number } = {}): Evidence {
  const tallies = {
    ...{ payments_asked: 11, payments_accepted: 10, payments_accepted_amount: 1_000 },
    ...{ payments_unknown: 1, payments_unknown_amount: 50 },
    ...{ duplicates_sent: 2, duplicates_caught: 2, answers_replayed: 2, requests_unanswered: 1 },
    ...changed.tallies,
  };
  const counts = { accepted: 110, ledger: 110, published: 110, deliveries: 110, ...changed.counts };
  return {
    run: { tallies, thresholds: [] },
    before: {
      audit: auditOf({ accepted: 100, ledger: 100, published: 100, deliveries: 100 }, 7_000),
      guards: noneAtGuards,
    },
    after: {
      audit: auditOf(counts, 7_000 + (changed.amount ?? 1_000)),
      guards: { ...noneAtGuards, atClaims: 2 },
    },
  };
}

const failing = (evidence: Evidence) =>
  judgeRun(evidence)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what);

test('a run of which all sides tell the same holds', () => {
  assert.deepEqual(failing(aRun()), []);
});

test('a key that was never clear may have been accepted, with its amount', () => {
  const more = { accepted: 111, ledger: 111, published: 111, deliveries: 111 };
  assert.deepEqual(failing(aRun({ counts: more, amount: 1_050 })), []);
});

const broken: readonly [what: string, check: string, evidence: Evidence][] = [
  ['a lost payment', 'accepted, in the topic', aRun({ counts: { accepted: 109 } })],
  ['a payment that nobody posted', 'posted in the ledger', aRun({ counts: { ledger: 109 } })],
  ['an event too few', 'published', aRun({ counts: { published: 109 } })],
  ['a webhook too many', 'delivered', aRun({ counts: { deliveries: 111 } })],
  ['a cent too much', 'their payments, in minor units', aRun({ amount: 1_051 })],
  [
    'a payment that was cut off',
    'payments asked for that came to an end',
    aRun({ tallies: { payments_asked: 12 } }),
  ],
  [
    'a refund that was cut off',
    'refunds asked for that came to an end',
    aRun({ tallies: { refunds_asked: 1 } }),
  ],
  [
    'a duplicate of which nothing is known',
    'duplicates caught, passed on to the ledger, or unanswered',
    aRun({ tallies: { duplicates_sent: 3 } }),
  ],
  [
    'a replay with other bytes',
    'duplicates answered wrongly',
    aRun({ tallies: { duplicates_altered: 1 } }),
  ],
  [
    'another body that was accepted',
    'other bodies refused',
    aRun({ tallies: { other_bodies_sent: 1 } }),
  ],
  [
    'a replay that no gateway counted',
    'replays and 409s that the gateways counted',
    aRun({ tallies: { answers_replayed: 3 } }),
  ],
];

for (const [what, check, evidence] of broken) {
  test(`${what} is seen`, () => {
    assert.ok(failing(evidence).includes(check));
  });
}

test('drift and a missed threshold are seen', () => {
  const evidence = aRun();
  const drift = [{ check: 'event-unpublished', ids: ['x'] }];
  const found = failing({
    ...evidence,
    run: { ...evidence.run, thresholds: [{ metric: 'm', expression: 'e', holds: false }] },
    after: { ...evidence.after, audit: { ...evidence.after.audit, drift } },
  });
  assert.deepEqual(found, ['thresholds missed', 'checks of the audit that found drift']);
});
