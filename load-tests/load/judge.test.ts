import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditReport } from '@triplock/inspect';
import { findKnee, judgeLevel, judgeRun, type Evidence, type LevelEvidence } from './judge.ts';
import { cpuMicrosOfEach, type Reading } from './readings.ts';

type Counts = Partial<AuditReport['counts']>;

const noneAtGuards = { atClaims: 0, atLedger: 0, atInbox: 0 };

function auditOf(counts: Counts, amount: number, drift: AuditReport['drift'] = []): AuditReport {
  const accepted = { count: 0, amount };
  return { counts, drift, sums: [{ accepted }] } as unknown as AuditReport;
}

/** Ten accepted payments of 100 each, two duplicates caught, and one key that was never clear. */
function aRun(changed: { tallies?: object; counts?: Counts; amount?: number } = {}): Evidence {
  const tallies = {
    payments_asked: 11,
    payments_accepted: 10,
    payments_accepted_amount: 1_000,
    payments_unknown: 1,
    payments_unknown_amount: 50,
    duplicates_sent: 2,
    duplicates_caught: 2,
    answers_replayed: 2,
    requests_unanswered: 1,
    ...changed.tallies,
  };
  const counts = { accepted: 110, ledger: 110, published: 110, deliveries: 110, ...changed.counts };
  return {
    run: { tallies, thresholds: [], besideMs: {} },
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

test('a run of which all sides report the same holds', () => {
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
    'a refund that was refused, and came to nothing',
    'refunds asked for that came to an end',
    aRun({ tallies: { refunds_too_much: 1 } }),
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

test('a partner beside a flood may wait three times as long as without it, or 250 ms, and no longer', () => {
  const found = (nobody: number, flood: number) => {
    const evidence = aRun();
    return failing({ ...evidence, run: { ...evidence.run, besideMs: { nobody, flood } } });
  };
  assert.deepEqual([found(20, 249), found(2_000, 5_999)], [[], []]);
  assert.match(String(found(20, 251)), /p99 of the others beside the flood, ms \(20 without it\)/);
  assert.equal(found(2_000, 6_001).length, 1);
});

/** A reading every two seconds at 10 a second; `behind` is how many wait at a share of the load. */
function aLevel(asked: {
  seconds: number;
  behind?: (share: number) => number;
  rss?: (share: number) => number;
}): Omit<LevelEvidence, 'level'> {
  const { seconds, behind = () => 0, rss = () => 100 } = asked;
  const readings = Array.from({ length: seconds / 2 + 20 }, (_, n): Reading => {
    const second = n * 2;
    const share = second / seconds;
    const accepted = 1_000 + Math.min(second, seconds) * 10;
    const delivered = share > 1 ? accepted : accepted - behind(share);
    const stages = { accepted, posted: delivered, published: delivered, delivered };
    return { second, ...stages, cpuSeconds: {}, rssMiB: { 'ledger-worker': rss(share) } };
  });
  return { rate: 10, seconds, readings };
}

const failingLevel = (evidence: LevelEvidence) =>
  judgeLevel(evidence)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what);

test('what a payment takes of a service is what that used meanwhile, and not since it started', () => {
  const [at] = aLevel({ seconds: 0 }).readings;
  const readings = [10, 11, 12].map((gateway) => ({ ...at!, cpuSeconds: { gateway } }));
  assert.deepEqual(cpuMicrosOfEach(readings, 1_000), { gateway: 2_000 });
});

test('a burst that is worked off before the end holds, one that is not does not', () => {
  const burst = (share: number) => (share > 0.3 && share < 0.8 ? 500 : 5);
  const returning = (behind: (share: number) => number) =>
    failingLevel({ level: 'returns', ...aLevel({ seconds: 60, behind }) });
  assert.deepEqual(returning(burst), []);
  const left = (share: number) => (share > 0.3 ? 500 : 5);
  assert.deepEqual(returning(left), ['waiting at the end of the load']);
});

test('a lag that grows all the time does not stay', () => {
  const growing = (share: number) => share * 200;
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 60, behind: growing }) }), [
    'waiting at the end of the load',
  ]);
});

test('memory is judged where a run is long enough to tell a leak from a start', () => {
  const leak = (share: number) => 100 + share * 100;
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 1_800, rss: leak }) }), [
    'MiB of ledger-worker at the end',
  ]);
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 1_800 }) }), []);
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 60, rss: leak }) }), []);
});

test('nothing is judged of a scenario without a level, and of a load of a moment', () => {
  assert.deepEqual(judgeLevel({ level: undefined, ...aLevel({ seconds: 60 }) }), []);
  assert.deepEqual(judgeLevel({ level: 'stays', rate: 10, seconds: 1, readings: [] }), []);
});

/** A system that holds up to a rate, and stutters at its first try of some. */
function upTo(limit: number, stutters: readonly number[] = []) {
  const tried = new Set<number>();
  return async (rate: number) => {
    const again = tried.has(rate);
    tried.add(rate);
    const holds = rate <= limit && (again || !stutters.includes(rate));
    const came = { p99Ms: 1, acceptedPerSecond: rate, seconds: [0, 1] as const };
    return { rate, holds, missed: holds ? [] : ['accept_ms'], ...came };
  };
}

test('the knee is within a tenth below the rate that is too much', async () => {
  for (const limit of [100, 149, 640, 4_321]) {
    const { rate } = await findKnee(100, upTo(limit));
    assert.ok(rate <= limit && rate >= limit * 0.9 - 1, `${rate} for ${limit}`);
  }
});

test('a knee of a few payments a second is found to the payment', async () => {
  for (let limit = 1; limit < 10; limit += 1) {
    const { rate } = await findKnee(1, upTo(limit));
    assert.equal(rate, limit);
  }
});

test('a rate that stutters once is tried again', async () => {
  const { rate, steps } = await findKnee(100, upTo(400, [150]));
  assert.ok(rate > 360);
  assert.equal(steps.filter((step) => step.rate === 150).length, 2);
});

test('a system that does not hold the first rate has no knee', async () => {
  const { rate, steps } = await findKnee(100, upTo(50));
  assert.equal(rate, 0);
  assert.equal(steps.length, 2);
});
