import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import {
  aPayment,
  aRefund,
  createTestStripe,
  eventually,
  growTestTopic,
  patientAppends,
  type TestStripe,
} from '@triplock/testing';
import { openGroupCommit, partitionOfKey } from '@triplock/transport';
import {
  aCard,
  aTransfer,
  ledgerCounts,
  outcomesOf,
  recordOf,
  refundRecordOf,
  traceparent,
} from '../test/pipeline.ts';
import { refundingAt } from '../test/at-stripe.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const { aRefunding, providerGaveBack, refundAtProvider } = refundingAt(() => stripe);

test('a storm of refunds gives back no more than was paid, and all of what fits, whoever has the money', async (context) => {
  const { work, worker, pay, refund, cameTo, givenBack, owner } = await aRefunding(context);
  const [transfer, card, otherTransfer, otherCard] = [aTransfer(), aCard(), aTransfer(), aCard()];
  const big = (payment: AcceptedPayment) =>
    Array.from({ length: 10 }, () => aRefund(payment, { amount: 600n }));
  const small = (payment: AcceptedPayment) =>
    Array.from({ length: 100 }, () => aRefund(payment, { amount: 10n }));
  // At once: most of a payment's refunds are in its own batch.
  await Promise.all([
    pay(transfer, card, otherTransfer, otherCard),
    refund(...[transfer, card].flatMap(big), ...[otherTransfer, otherCard].flatMap(small)),
  ]);
  await worker.allCommitted();
  for (const payment of [transfer, card]) {
    assert.deepEqual(await cameTo(payment), { amount_exceeds_refundable: 9, succeeded: 1 });
    assert.deepEqual(await givenBack(payment), { refunded: 600n, reserved: 600n });
  }
  for (const payment of [otherTransfer, otherCard]) {
    assert.deepEqual(await cameTo(payment), { succeeded: 100 });
    assert.deepEqual(await givenBack(payment), { refunded: 1_000n, reserved: 1_000n });
  }
  assert.deepEqual(await providerGaveBack(), { count: 101, amount: 1_600 });
  const sequences = await owner.query<{ sequence: bigint }>(
    'SELECT sequence FROM ledger.outbox WHERE payment_id = $1 ORDER BY order_id',
    [otherCard.txnId],
  );
  assert.deepEqual(
    sequences.map(({ sequence }) => Number(sequence)),
    Array.from({ length: 101 }, (_, n) => n + 1),
  );

  const counts = await ledgerCounts(owner);
  const replay = work();
  await replay.allCommitted();
  assert.deepEqual(outcomesOf(replay), { 'already-recorded': 224 });
  assert.deepEqual(await ledgerCounts(owner), counts);
  assert.deepEqual(await providerGaveBack(), { count: 101, amount: 1_600 });
});

test('a refund that the provider has no unit for fails before it holds anything, and all that is left is for the next', async (context) => {
  const { worker, pay, refund, cameTo, givenBack } = await aRefunding(context);
  const card = aPayment({ amount: 10_000n, currency: 'BHD', paymentMethod: 'pm_card_visa' });
  await pay(card);
  await worker.allCommitted();
  await refund(aRefund(card, { amount: 1_255n }), aRefund(card, {}));
  await worker.allCommitted();
  assert.deepEqual(await cameTo(card), { amount_not_expressible: 1, succeeded: 1 });
  assert.deepEqual(await givenBack(card), { refunded: 10_000n, reserved: 10_000n });
});

test('a refund that comes before its payment waits, and goes on as soon as that is final', async (context) => {
  const { worker, pay, refund, cameTo, untilItCameTo, owner } = await aRefunding(context);
  const authenticates = aCard('pm_card_authenticationRequired');
  const [leaves, late] = [aCard('pm_card_authenticationRequired'), aTransfer()];
  await pay(authenticates, leaves);
  await refund(...[authenticates, leaves, late].map((payment) => aRefund(payment)));
  await worker.allCommitted();
  for (const payment of [authenticates, leaves, late]) {
    assert.deepEqual(await cameTo(payment), { pending: 1 });
  }
  await pay(late);
  const intents = await owner.query<{ txn_id: string; provider_intent_id: string }>(
    'SELECT txn_id, provider_intent_id FROM ledger.transactions WHERE provider_intent_id IS NOT NULL',
  );
  for (const { txn_id: id, provider_intent_id: intent } of intents) {
    const outcome = id === authenticates.txnId ? 'succeeded' : 'failed';
    await stripe.control('POST', `/payment_intents/${intent}/authenticate`, { outcome });
  }
  // Only the payments are looked at: their refunds become due by what they come to.
  await owner.query(`
    UPDATE ledger.transactions SET due_at = now(), version = version + 1
    WHERE state = 'pending' AND kind = 'payment'`);
  const startedMs = performance.now();
  await untilItCameTo(authenticates, { succeeded: 1 });
  await untilItCameTo(leaves, { payment_not_refundable: 1 });
  await untilItCameTo(late, { succeeded: 1 });
  assert.ok(performance.now() - startedMs < 10_000);
  assert.deepEqual(await providerGaveBack(), { count: 1, amount: 1_000 });
});

test('a refund that can never be given back fails with its reason, and holds nothing of its payment', async (context) => {
  const { worker, pay, refund, cameTo, givenBack, intentOf } = await aRefunding(context);
  const [declined, card, transfer] = [aCard('pm_card_chargeDeclined'), aCard(), aTransfer()];
  const partly = aCard();
  await pay(declined, card, partly, transfer);
  await worker.allCommitted();
  // Somebody gave the charges back at the provider itself, of one a part.
  for (const [charged, amount] of [
    [card, '1000'],
    [partly, '700'],
  ] as const) {
    await refundAtProvider({ payment_intent: await intentOf(charged), amount });
  }
  const tooMuch = aRefund(transfer, { amount: 1_001n });
  await refund(aRefund(declined), aRefund(card), aRefund(partly, { amount: 400n }), tooMuch);
  await worker.allCommitted();
  assert.deepEqual(await cameTo(declined), { payment_not_refundable: 1 });
  assert.deepEqual(await cameTo(card), { charge_already_refunded: 1 });
  for (const payment of [partly, transfer]) {
    assert.deepEqual(await cameTo(payment), { amount_exceeds_refundable: 1 });
  }
  for (const payment of [card, partly, transfer]) {
    assert.deepEqual(await givenBack(payment), { refunded: 0n, reserved: 0n });
  }
  assert.equal(outcomesOf(worker)['refund-failed'], 4);
});

test('refunds and copies that come to other partitions, because some were added, take effect once and behind their payments', async (context) => {
  const refunding = await aRefunding(context);
  const { worker, work, pay, settings, owner, untilItCameTo } = refunding;
  const accepted = { topic: settings.ACCEPTED_TOPIC, brokers: [settings.KAFKA_BROKERS] };
  const payments = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? aCard() : aTransfer()));
  await worker.consumer.close();
  const paid = pay(...payments);
  await growTestTopic(accepted, 4);
  await paid;
  const elsewhere = payments.filter(({ txnId }) => partitionOfKey(txnId, 4) !== 0);
  assert.ok(elsewhere.length > 0);
  // As a gateway that was started since.
  const log = openGroupCommit({ ...accepted, clientId: 'test', logger, limits: patientAppends });
  context.after(() => log.close());
  const refunds = elsewhere.map((payment) => aRefund(payment, { amount: 300n }));
  await Promise.all([
    ...refunds.map((each) => log.append(refundRecordOf(each))),
    ...elsewhere.map((each) => log.append(recordOf(each))),
  ]);
  // Two groups, so that every record is also met a second time, and often at once.
  await Promise.all([work(), work()].map(({ allCommitted }) => allCommitted()));
  for (const payment of elsewhere) await untilItCameTo(payment, { succeeded: 1 });
  const all = payments.length + elsewhere.length;
  assert.deepEqual(await ledgerCounts(owner), { rows: all, entries: all, events: all });
  const outOfOrder = await owner.query(`
    SELECT FROM ledger.outbox WHERE (sequence = 1) <> (txn_id = payment_id)`);
  assert.deepEqual(outOfOrder, []);
  const { charges } = await stripe.control<{ charges: object }>('GET', '/audit');
  assert.deepEqual(charges, { eur: { count: 20, amount: 20_000 } });
  const cards = elsewhere.filter((each) => payments.indexOf(each) % 2 === 0).length;
  assert.deepEqual(await providerGaveBack(), { count: cards, amount: cards * 300 });
});

test('of two refunds under one key the first stands; that one and what nobody can store are dead-lettered', async (context) => {
  const { worker, pay, refund, cameTo, owner, deadLetters } = await aRefunding(context);
  await owner.query(`
    ALTER TABLE ledger.transactions ADD CONSTRAINT no_poison CHECK (details NOT LIKE '%poison%')`);
  const transfer = aTransfer();
  const winner = aRefund(transfer, { key: 'return-1', amount: 100n });
  const loser = aRefund(transfer, { key: 'return-1', amount: 200n });
  await pay(transfer);
  for (const each of [winner, loser, aRefund(transfer, { reason: 'poison' })]) await refund(each);
  await refund(aRefund(transfer));
  await worker.allCommitted();
  await eventually(async () => deadLetters.length === 2);
  assert.deepEqual(deadLetters.map(({ headers }) => String(headers['dead-letter.reason'])).sort(), [
    'key_conflict',
    'unpostable',
  ]);
  assert.deepEqual(await cameTo(transfer), { succeeded: 2 });
  assert.equal((await worker.followUps.find(winner.txnId))?.money?.amount, 100n);
  const reported = await owner.query(`
    SELECT FROM ledger.outbox WHERE event_type = 'payment.key_conflict'`);
  assert.equal(reported.length, 1);
});

test('a refund that was given back by a worker which died is found by the resolver, not given again', async (context) => {
  const { worker, pay, letTimePass, cameTo, intentOf } = await aRefunding(context);
  const card = aCard();
  await pay(card);
  await worker.allCommitted();
  const refund = aRefund(card, { amount: 400n });
  const posting = { followUp: refund, traceparent, settledAt: new Date() };
  const posted = await worker.followUps.post(posting);
  assert.equal(posted.outcome, 'reserved');
  // In our name and without our key: as after a day, when the provider has forgotten it.
  const ours = { payment_intent: await intentOf(card), 'metadata[txn_id]': refund.txnId };
  await refundAtProvider({ ...ours, amount: '400' });
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  assert.deepEqual(await cameTo(card), { succeeded: 1 });
  assert.deepEqual(await providerGaveBack(), { count: 1, amount: 400 });
});

test('a refusal is believed only after the provider’s list: the money may have gone back for this very refund', async (context) => {
  const { worker, pay, refund, cameTo, givenBack, intentOf } = await aRefunding(context);
  const card = aCard();
  await pay(card);
  await worker.allCommitted();
  const whole = aRefund(card);
  const ours = { payment_intent: await intentOf(card), 'metadata[txn_id]': whole.txnId };
  await refundAtProvider({ ...ours, amount: '1000' });
  await refund(whole);
  await worker.allCommitted();
  assert.deepEqual(await cameTo(card), { succeeded: 1 });
  assert.deepEqual(await givenBack(card), { refunded: 1_000n, reserved: 1_000n });
  assert.deepEqual(await providerGaveBack(), { count: 1, amount: 1_000 });
});

const faults = [
  { fault: 'reset-after' },
  { fault: 'half-body' },
  { fault: 'error-after' },
  { fault: 'reset' },
  { fault: 'unavailable' },
  { fault: 'time-out', delayMs: 3_000 },
];

test('a refund whose answer the provider loses is given back once, and holds up nobody', async (context) => {
  const { work, worker, pay, refund, cameTo, letTimePass } = await aRefunding(context);
  const impatient = work(100);
  const cards = faults.map(() => aCard());
  await pay(...cards);
  await worker.allCommitted();
  await worker.consumer.close();
  for (const [n, fault] of faults.entries()) {
    const { id } = await stripe.control<{ id: string }>('POST', '/faults', {
      ...fault,
      operation: 'refunds.create',
      count: 2,
    });
    await refund(aRefund(cards[n]!, { amount: 400n }));
    await impatient.allCommitted();
    await eventually(async () => {
      await letTimePass();
      await impatient.resolve();
      assert.deepEqual(await cameTo(cards[n]!), { succeeded: 1 }, fault.fault);
      return true;
    });
    type Struck = { faults: { id: string; hits: number }[] };
    const { faults: struck } = await stripe.control<Struck>('GET', '/faults');
    assert.ok(struck.find((each) => each.id === id)!.hits > 0, fault.fault);
    await stripe.control('DELETE', `/faults/${id}`);
  }
  const { length } = faults;
  assert.deepEqual(await providerGaveBack(), { count: length, amount: 400 * length });
});

test('a refund behind a 500 that the provider keeps is asked for under no other key, and waits for the provider', async (context) => {
  const { work, worker, pay, refund, cameTo, letTimePass, intentOf } = await aRefunding(context);
  const impatient = work(100);
  const [comesLate, neverCame] = [aCard(), aCard()];
  await pay(comesLate, neverCame);
  await worker.allCommitted();
  await worker.consumer.close();
  const kept = { fault: 'error', operation: 'refunds.create', count: 2 };
  const { id } = await stripe.control<{ id: string }>('POST', '/faults', kept);
  const late = aRefund(comesLate, { amount: 400n });
  await refund(late, aRefund(neverCame, { amount: 400n }));
  await impatient.allCommitted();
  const look = async () => {
    await letTimePass();
    await impatient.resolve();
  };
  for (let looks = 0; looks < 3; looks += 1) await look();
  await stripe.control('DELETE', `/faults/${id}`);
  // What was never asked for again can only be given back once, whenever the provider gets to it.
  for (const card of [comesLate, neverCame]) assert.deepEqual(await cameTo(card), { pending: 1 });
  assert.deepEqual(await providerGaveBack(), { count: 0, amount: 0 });

  const about = { payment_intent: await intentOf(comesLate), 'metadata[txn_id]': late.txnId };
  await refundAtProvider({ ...about, amount: '400' });
  await look();
  assert.deepEqual(await cameTo(comesLate), { succeeded: 1 });
  assert.deepEqual(await cameTo(neverCame), { pending: 1 });
  assert.deepEqual(await providerGaveBack(), { count: 1, amount: 400 });

  await stripe.control('POST', '/clock', { advanceMs: 25 * 3_600_000 });
  await eventually(async () => {
    await look();
    assert.deepEqual(await cameTo(neverCame), { succeeded: 1 });
    return true;
  });
  assert.deepEqual(await providerGaveBack(), { count: 2, amount: 800 });
});
