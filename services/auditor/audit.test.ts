import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { AcceptedPayment, EventId } from '@triplock/payments';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { succeededEvent } from '@triplock/testing/test';
import { observe, resultOf } from './audit.ts';
import { ownersOf } from './test/hops.ts';
import { anAuditorOf, wholeSystem, type System } from './test/whole-system.ts';

async function aSystem(context: TestContext) {
  const store = await createTestDatabase(context);
  const system = wholeSystem(ownersOf(store));
  const database = store.open('triplock_auditor');
  const audit = async ({ final = false, workerLag = 0 } = {}) => {
    return resultOf(await observe(anAuditorOf(database, { workerLag })), { final });
  };
  return { system, audit };
}

const loserOf = (winner: AcceptedPayment) =>
  aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n });

/** Posts a card, of which the provider says whom it waits for. */
async function ask(system: System, payment: AcceptedPayment, waitsFor: 'customer' | 'bank') {
  await system.accept(payment);
  await system.begin(payment);
  await system.askOutside(payment, waitsFor);
}

const givenUpAgain = `WITH tried AS (
    UPDATE webhooks.delivery_attempts SET recorded_at = now() + interval '1 second'
    WHERE event_id = $1 RETURNING recorded_at
  ) UPDATE webhooks.deliveries SET finished_at = (SELECT max(recorded_at) FROM tried)
    WHERE event_id = $1`;

test('what waits for a partner’s endpoint is no drift, is named with the partner, and is added up apart', async (context) => {
  const { system, audit } = await aSystem(context);
  const [parked, refused, givenUp, delivered] = [
    aPayment(),
    aPayment({ partner: 'globex' }),
    aPayment(),
    aPayment(),
  ];
  for (const payment of [parked, refused, givenUp, delivered]) await system.pay(payment);
  const [ofParked, ofRefused, ofGivenUp] = [parked, refused, givenUp].map((payment) => {
    return succeededEvent(payment).event_id;
  }) as [EventId, EventId, EventId];
  await system.failToDeliver(ofGivenUp, 'failed');
  await system.failToDeliver(ofParked, 'parked');
  await system.failToDeliver(ofRefused, 'pending');
  const { ok, settledDown, drift, waiting, counts, sums } = await audit({ final: true });
  assert.deepEqual([ok, settledDown, drift], [true, true, []]);
  assert.deepEqual(waiting.map((each) => [each.for, [...each.ids].sort()]).sort(), [
    ['endpoint of acme', [ofParked, ofGivenUp].sort()],
    ['endpoint of globex', [ofRefused]],
  ]);
  assert.ok(waiting.every(({ since }) => Date.now() - +since > 8 * 86_400_000));
  assert.deepEqual([counts.deliveries, counts.undelivered], [1, 3]);
  const acme = sums.find(({ partner }) => partner === 'acme')!;
  assert.deepEqual([acme.published.count, acme.delivered.count, acme.undelivered.count], [3, 1, 2]);
  assert.deepEqual([acme.gross.delivered.count, acme.gross.undelivered.count], [1, 2]);

  // What a person dismissed waits no more, though its partner never got it, until it is given up
  // once more.
  await system.break(
    `INSERT INTO auditor.operator_acts (act, subject, done_by, why)
     VALUES ('dismiss', $1, 'ada', 'its partner is gone')`,
    [`webhook:${ofGivenUp}`],
  );
  const dismissed = await audit({ final: true });
  assert.deepEqual([dismissed.ok, dismissed.counts.undelivered], [true, 3]);
  const acmes = dismissed.waiting.find((each) => each.for === 'endpoint of acme');
  assert.deepEqual(acmes?.ids, [ofParked]);
  await system.break(givenUpAgain, [ofGivenUp]);
  const again = await audit({ final: true });
  assert.ok(again.waiting.some(({ ids }) => ids.includes(ofGivenUp)));

  // Since there is an endpoint it is the sender's to release what is parked.
  await system.break(`INSERT INTO partners.partners (id) VALUES ('acme')`);
  await system.break(
    `INSERT INTO partners.webhook_endpoints (partner_id, url, host, secrets)
     VALUES ('acme', 'https://acme.example', 'acme.example', '[{"id": "1", "key": "one", "box": ""}]')`,
  );
  assert.equal((await audit({ final: true })).ok, true, 'it has yet to say that it wants them');
  await system.break(
    'UPDATE partners.webhook_endpoints SET verified_url = url, verified_at = now()',
  );
  const open = await audit();
  assert.deepEqual([open.ok, open.settledDown], [true, false]);
  assert.deepEqual(open.inFlight.waiting[0], { check: 'delivery-waiting', ids: [ofParked] });
  assert.equal((await audit({ final: true })).ok, false);
  await system.break('UPDATE partners.webhook_endpoints SET disabled_at = now()');
  assert.equal((await audit({ final: true })).ok, true);
  // A refused webhook hides no sender that stands still.
  const due = `UPDATE webhooks.deliveries SET next_attempt_at = now() - $1::interval WHERE state = 'pending'`;
  await system.break(due, ['9 minutes']);
  assert.equal((await audit({ final: true })).ok, true);
  await system.break(due, ['11 minutes']);
  const stalled = { check: 'delivery-waiting', ids: [ofRefused] };
  assert.deepEqual((await audit()).inFlight.waiting[0], stalled);
});

test('a card that waits for its customer or a bank is no drift, until a worker should have ended it', async (context) => {
  const { system, audit } = await aSystem(context);
  const card = (hours: number) => {
    const acceptedAt = new Date(Date.now() - hours * 3_600_000);
    return aPayment({ paymentMethod: 'pm_card_visa', acceptedAt });
  };
  const [authenticating, banking, forgotten, unnoted] = [100, 900, 26, 3].map(card);
  await ask(system, authenticating!, 'customer');
  await ask(system, banking!, 'bank');
  const told = await system.awaitCustomer(authenticating!.txnId);
  await system.publish(told);
  const early = await audit({ final: true });
  // There is nobody to ask about the cards here.
  assert.deepEqual(early.drift, [{ check: 'not-compared', ids: ['stripe'] }]);
  assert.deepEqual(
    early.waiting.map(({ for: whom, ids }) => [whom, ids]),
    [
      ['bank of acme', [banking!.txnId]],
      ['customer of acme', [authenticating!.txnId]],
    ],
  );
  assert.deepEqual(early.waiting[1]!.since, authenticating!.acceptedAt);
  const [{ ledger, unfinished, published } = assert.fail('no sums')] = early.sums;
  assert.deepEqual([ledger.count, unfinished.count, published.count], [2, 2, 0]);
  assert.deepEqual([early.counts.events, early.counts.deliveries], [1, 1]);

  for (const each of [forgotten!, unnoted!]) await ask(system, each, 'customer');
  await system.publish(await system.awaitCustomer(forgotten!.txnId, -61 * 60_000));
  // No worker has noted when this one's time is over.
  await system.break(
    `UPDATE auditor.provider_journal SET created_at = now() - interval '2 hours'
     WHERE txn_id = $1`,
    [unnoted!.txnId],
  );
  const { drift, waiting } = await audit();
  const late = [forgotten!.txnId, unnoted!.txnId];
  assert.deepEqual(drift, [{ check: 'card-unfinished', ids: late }]);
  assert.equal(waiting.length, 2);
});

test('what Kafka lost is listed by its offsets until somebody acknowledges it', async (context) => {
  const { system, audit } = await aSystem(context);
  await system.break(
    `INSERT INTO auditor.accepted_lost
       (lost_id, topic, kafka_partition, from_offset, to_offset, why, whole_at, found_at)
     OVERRIDING SYSTEM VALUE
     VALUES (7, 'payments.accepted.v1', 3, 120, 123, 'dropped', now(), '2026-01-02T03:05:06Z')`,
  );
  const { ok, lost } = await audit();
  const seen_at = new Date('2026-01-02T03:05:06Z');
  assert.deepEqual([ok, lost], [false, [{ partition: 3, from: 120, to: 122, seen_at }]]);
  await system.break(
    `INSERT INTO auditor.operator_acts (act, subject, done_by) VALUES ('acknowledge', 'lost:7', 'ada')`,
  );
  assert.deepEqual((await audit()).lost, []);
});

test('a system in which everything arrived has settled down without drift', async (context) => {
  const { system, audit } = await aSystem(context);
  const winner = aPayment({ amount: 1_000n });
  await system.pay(winner);
  await system.pay(aPayment({ amount: 500n }));
  await system.pay(aPayment({ partner: 'globex', amount: 300n, currency: 'JPY' }));
  await system.giveBack(aRefund(winner, { amount: 400n }), 2);
  await system.giveBack(aRefund(winner), 3);
  await system.giveBack(aRefund(winner), 4);
  await system.giveBack(aRefund(winner, { amount: 1n }), 5);
  await system.loseKey(loserOf(winner));
  const spoiled = { ...system.record(aPayment()), value: Buffer.from('{"half":') };
  await system.append([spoiled]);
  await system.deadLetter(spoiled, 'not_json');

  const { sums, ...result } = await audit();
  assert.deepEqual(result, {
    ok: true,
    settledDown: true,
    counts: {
      accepted: 9,
      ledger: 7,
      deadLettered: 1,
      keyConflicts: 1,
      charges: 0,
      events: 8,
      published: 8,
      inbox: 8,
      deliveries: 8,
      undelivered: 0,
    },
    drift: [],
    waiting: [],
    lost: [],
    inFlight: { lag: { worker: 0, accepted: 0, deadLetters: 0 }, waiting: [] },
    notCompared: [],
  });
  const none = { count: 0, amount: 0 };
  const everywhere = (count: number, amount: number) => {
    const sum = { count, amount };
    return { ledger: sum, published: sum, delivered: sum, undelivered: none };
  };
  const payments = (count: number, amount: number) => {
    const layers = { accepted: { count, amount }, unfinished: none, ...everywhere(count, amount) };
    return { ...layers, gross: everywhere(count, amount) };
  };
  const neither = { ledger: none, provider: none };
  const noCards = { charged: neither, givenBack: neither };
  assert.deepEqual(sums, [
    {
      partner: 'acme',
      currency: 'EUR',
      ...payments(2, 1_500),
      refunds: everywhere(2, 1_000),
      net: 500,
      cards: noCards,
    },
    {
      partner: 'globex',
      currency: 'JPY',
      ...payments(1, 300),
      refunds: everywhere(0, 0),
      net: 300,
      cards: noCards,
    },
  ]);
});

test('an empty system has settled down without drift', async (context) => {
  const { ok, settledDown } = await (await aSystem(context)).audit();
  assert.deepEqual([ok, settledDown], [true, true]);
});

test('the same request appended and delivered again changes no figure', async (context) => {
  const { system, audit } = await aSystem(context);
  const payment = aPayment();
  await system.pay(payment);
  const before = await audit();
  await system.accept(payment);
  await system.post(payment);
  await system.see(succeededEvent(payment));
  await system.notify(succeededEvent(payment));
  assert.deepEqual(await audit(), before);
});

test('what is in flight is no drift until waiting is over', async (context) => {
  const { system, audit } = await aSystem(context);
  const payment = aPayment();
  await system.accept(payment);
  const waiting = [
    { check: 'accepted-unaccounted', ids: [payment.txnId] },
    { check: 'sums-differ', ids: ['acme/EUR'] },
  ];
  const early = await audit();
  assert.deepEqual([early.ok, early.settledDown], [true, false]);
  assert.deepEqual(early.inFlight.waiting, waiting);
  const final = await audit({ final: true });
  assert.deepEqual([final.ok, final.drift], [false, waiting]);
});

test('a system with a lag has not settled down', async (context) => {
  const { audit } = await aSystem(context);
  const early = await audit({ workerLag: 3 });
  assert.deepEqual([early.ok, early.settledDown, early.inFlight.lag.worker], [true, false, 3]);
  const final = await audit({ workerLag: 3, final: true });
  assert.deepEqual(final.drift, [{ check: 'lag', ids: ['worker: 3'] }]);
});

test('what only the next copy of the ledger explains is no drift, and what it does not explain is', async (context) => {
  const store = await createTestDatabase(context);
  const system = wholeSystem(ownersOf(store));
  const [late, forged] = [aPayment(), aPayment()];
  let copies = 0;
  const copyLedger = async () => {
    copies += 1;
    // It was seen published after the first copy was made, and is in the second.
    if (copies === 1) await system.see(succeededEvent(late));
    if (copies === 2) await system.pay(late);
    return { transactions: 0, events: 0, moreFollows: false };
  };
  const parts = { ...anAuditorOf(store.open('triplock_auditor'), {}), copyLedger };
  assert.deepEqual(resultOf(await observe(parts), { final: false }).drift, []);
  await system.see(succeededEvent(forged));
  const { drift } = resultOf(await observe(parts), { final: false });
  const ids = [succeededEvent(forged).event_id];
  assert.deepEqual(drift, [{ check: 'published-unfounded', ids }]);
});

test('an audit that meets a copy between two slices waits for the last one', async (context) => {
  const store = await createTestDatabase(context);
  const [ledger, auditor] = [store.open('triplock_copy'), store.open('triplock_auditor')];
  await ledger.query('INSERT INTO ledger.copied (until_micros, behind) VALUES (1, true)');
  let copies = 0;
  const copyLedger = async () => {
    copies += 1;
    // The first time another copier begins on the next backlog at once.
    if (copies === 2) await ledger.query('UPDATE ledger.copied SET behind = false');
    return { transactions: 0, events: 0, moreFollows: false };
  };
  assert.deepEqual((await observe({ ...anAuditorOf(auditor, {}), copyLedger })).findings, []);
  assert.equal(copies, 2);
});
