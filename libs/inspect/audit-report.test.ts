import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  countedThings,
  isOnlyInFlight,
  renderAudit,
  type AuditReport,
  type Finding,
} from './audit-report.ts';

const sum = { count: 2, amount: 5_000 };
const none = { count: 0, amount: 0 };
const clean: AuditReport = {
  ok: true,
  settledDown: true,
  counts: {
    accepted: 2,
    ledger: 2,
    deadLettered: 0,
    keyConflicts: 0,
    charges: 0,
    events: 2,
    published: 2,
    inbox: 2,
    deliveries: 2,
    undelivered: 0,
  },
  sums: [
    {
      partner: 'acme',
      currency: 'EUR',
      accepted: sum,
      ledger: sum,
      published: sum,
      delivered: sum,
      unfinished: none,
      undelivered: none,
      gross: { ledger: sum, published: sum, delivered: sum },
      refunds: { ledger: none, published: none, delivered: none },
      net: 5_000,
      cards: {
        charged: { ledger: none, provider: none },
        givenBack: { ledger: none, provider: none },
      },
    },
  ],
  drift: [],
  waiting: [],
  lost: [],
  inFlight: { lag: {}, waiting: [] },
  notCompared: [],
};

test('what is at the provider alone comes with the question whose it is', () => {
  const hint = /Give each system an account of its own/;
  const driftIn = (check: string) =>
    renderAudit({ ...clean, ok: false, drift: [{ check, ids: ['ch_1'] }] }).join('\n');
  assert.match(driftIn('charge-unfounded'), hint);
  assert.doesNotMatch(driftIn('payment-differs-from-provider'), hint);
});

test('money of a payment that had ended comes with the command that gives it back', () => {
  const drift = [{ check: 'payment-contradicts-provider', ids: ['37585521'] }];
  const text = renderAudit({ ...clean, ok: false, drift }).join('\n');
  assert.match(text, /npm run give-back -- ID --why TEXT/);
  assert.doesNotMatch(renderAudit(clean).join('\n'), /give-back/);
});

test('records that Kafka lost come with what a person has to do', () => {
  const id = '7/payments.accepted.v1/3/120-122/dropped/2026-01-02T03:04:05Z/2026-01-02T03:05:06Z';
  const drift = [{ check: 'accepted-lost', ids: [id] }];
  const text = renderAudit({ ...clean, ok: false, drift }).join('\n');
  assert.ok(text.includes(id));
  assert.match(text, /audit -- acknowledge ID --reason TEXT/);
  assert.doesNotMatch(text, /Acknowledge each of these ids/);
  const missing = [{ check: 'accepted-unaccounted', ids: ['37585521'] }];
  const lines = renderAudit({ ...clean, ok: false, drift: [...drift, ...missing] }).join('\n');
  assert.match(lines, /Acknowledge each of these ids/);
});

test('webhooks that wait for an endpoint are counted where there are any', () => {
  assert.doesNotMatch(renderAudit(clean).join('\n'), /undelivered/);
  const { counts } = clean;
  const lines = renderAudit({ ...clean, counts: { ...counts, undelivered: 31 } });
  assert.match(lines[0]!, /undelivered/);
  assert.ok(lines.slice(0, 3).some((line) => /\b31$/.test(line.trimEnd())));
});

test('a clean audit shows equal sums for every layer', () => {
  const text = renderAudit(clean).join('\n');
  assert.match(text, /acme {2,}payments( {2,}50\.00 EUR){4} {2}equal/);
  assert.match(text, /no drift/);
});

test('what waits for others is listed with for whom and since when, and its sums are equal', () => {
  const since = '2026-01-02T03:04:05.000Z';
  const ids = ['e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7'];
  const waiting = [{ for: 'endpoint of acme', ids, since }];
  const layers = { delivered: none, undelivered: sum };
  const sums = clean.sums.map((each) => ({ ...each, ...layers }));
  const text = renderAudit({ ...clean, sums, waiting }).join('\n');
  assert.match(text, /no drift/);
  assert.match(text, /payments( {2,}50\.00 EUR){3} {2,}0\.00 EUR {2}equal, 50\.00 EUR waiting/);
  assert.match(
    text,
    /endpoint of acme, since 2026-01-02T03:04:05\.000Z: e1 e2 e3 e4 e5 and 2 more/,
  );
});

test('refunds are shown with what is left after them', () => {
  const back = { count: 1, amount: 2_000 };
  const refunds = { ledger: back, published: back, delivered: back };
  const sums = clean.sums.map((each) => ({ ...each, refunds, net: 3_000 }));
  const text = renderAudit({ ...clean, sums }).join('\n');
  assert.match(text, / gross( {2,}50\.00 EUR){3} {2,}equal/);
  assert.match(text, / refunds( {2,}20\.00 EUR){3} {2,}equal/);
  assert.match(text, / net {2,}30\.00 EUR/);
});

test('cards are shown as the provider has them', () => {
  const charged = { ledger: sum, provider: { count: 3, amount: 6_000 } };
  const givenBack = { ledger: { count: 1, amount: 700 }, provider: { count: 1, amount: 700 } };
  const sums = clean.sums.map((each) => ({ ...each, cards: { charged, givenBack } }));
  const text = renderAudit({ ...clean, sums }).join('\n');
  assert.match(text, / by card {2,}60\.00 EUR {2,}50\.00 EUR {2,}differ/);
  assert.match(text, / to cards {2,}7\.00 EUR {2,}7\.00 EUR {2,}equal/);
});

test('what could not be compared is named with its next step, and is not called work in flight', () => {
  const report: AuditReport = {
    ...clean,
    ok: false,
    settledDown: false,
    drift: [{ check: 'not-compared', ids: ['provider'] }],
    notCompared: [{ part: 'provider', why: 'Stripe did not answer', next: 'audit again' }],
  };
  const text = renderAudit(report).join('\n');
  assert.match(text, /provider not compared: Stripe did not answer; audit again/);
  assert.equal(isOnlyInFlight(report), false);
});

test('drift is shown with its check and its ids, and sums that differ say so', () => {
  const delivered = { count: 1, amount: 2_500 };
  const report: AuditReport = {
    ...clean,
    ok: false,
    sums: clean.sums.map((each) => ({ ...each, delivered })),
    drift: [{ check: 'delivery-waiting', ids: ['one', 'two'] }],
  };
  const text = renderAudit(report).join('\n');
  assert.match(text, /differ/);
  assert.match(text, /delivery-waiting: one two/);
});

const zero = Object.fromEntries(countedThings.map((thing) => [thing, 0]));
const waiting = { check: 'event-unpublished', ids: ['e'] };
const lag = { check: 'lag', ids: ['worker: 3'] };
const wrong = { check: 'entry-differs-from-ledger', ids: ['t'] };

/** The final report of an audit that found this, with one event still in flight. */
const found = (...drift: Finding[]): AuditReport => ({
  ok: drift.length === 0,
  settledDown: false,
  counts: zero as AuditReport['counts'],
  sums: [],
  drift,
  waiting: [],
  lost: [],
  inFlight: { lag: { worker: 3 }, waiting: [waiting] },
  notCompared: [],
});

test('what is only in flight is kept apart from what is wrong', () => {
  assert.equal(isOnlyInFlight(found(waiting, lag)), true);
  assert.equal(isOnlyInFlight(found(waiting, lag, wrong)), false);
  assert.equal(isOnlyInFlight(found()), false);
});
