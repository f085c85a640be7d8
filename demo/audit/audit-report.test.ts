import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countedThings, isOnlyInFlight, type AuditReport, type Finding } from './audit-report.ts';

const zero = Object.fromEntries(countedThings.map((thing) => [thing, 0]));
const waiting = { check: 'event-unpublished', ids: ['e'] };
const lag = { check: 'lag', ids: ['worker: 3'] };
const wrong = { check: 'entry-differs-from-ledger', ids: ['t'] };

/** The last word of an audit that found this, with one event still in flight. */
const found = (...drift: Finding[]): AuditReport => ({
  ok: drift.length === 0,
  settledDown: false,
  counts: zero as AuditReport['counts'],
  sums: [],
  drift,
  inFlight: { lag: { worker: 3 }, waiting: [waiting] },
  notCompared: [],
});

test('what is only in flight is told from what is wrong', () => {
  assert.equal(isOnlyInFlight(found(waiting, lag)), true);
  assert.equal(isOnlyInFlight(found(waiting, lag, wrong)), false);
  assert.equal(isOnlyInFlight(found()), false);
});
