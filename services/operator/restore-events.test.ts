import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  openPostgresFollowUps,
  openPostgresLedger,
  type FollowUpOutcome,
  type ReservedFollowUp,
} from '@triplock/ledger';
import type { AcceptedFollowUp, AcceptedPayment, TxnId } from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import { createRandom, shuffled } from '@triplock/runtime';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { openEventRestorer, type RestoredEvents } from './restore-events.ts';

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** A ledger, and what a worker does with it. */
async function aLedger(context: TestContext) {
  const store = await createTestDatabase(context);
  const worker = store.open('triplock_ledger');
  const [ledger, followUps] = [openPostgresLedger(worker), openPostgresFollowUps(worker)];
  const transfer = async (payment: AcceptedPayment) => {
    const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    await ledger.post([{ payment, traceparent, settlement }]);
  };
  const post = (followUp: AcceptedFollowUp) =>
    followUps.post({ followUp, traceparent, settledAt: new Date() });
  /** Posts a card, and stores its intent. */
  const begin = async (payment: AcceptedPayment) => {
    const { txnId } = payment;
    await ledger.post([{ payment, traceparent }]);
    const row = await ledger.find(txnId);
    const intent = { provider: 'stripe', intentId: `pi_${txnId.slice(0, 8)}` } as const;
    await ledger.storeIntent({ txnId, version: row!.version, ...intent });
    return intent.intentId;
  };
  const versionOf = async (txnId: TxnId) => (await ledger.find(txnId))!.version;
  const charge = async ({ txnId }: AcceptedPayment) => {
    const version = await versionOf(txnId);
    const end = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    const chargeId = `ch_${txnId.slice(0, 8)}`;
    return ledger.settle({ txnId, version, traceparent, chargeId, ...end });
  };
  const settle = ({ txnId, version }: ReservedFollowUp) => {
    const end = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    return followUps.settle({ txnId, version, traceparent, refundId: `re_${txnId}`, ...end });
  };
  /** Posts a refund and, where its amount is held, has it given back. */
  const giveBack = async (refund: AcceptedFollowUp) => {
    const posted = await post(refund);
    if ('followUp' in posted) await settle(posted.followUp);
    return posted;
  };
  return {
    owner: store.open(),
    ledger,
    followUps,
    transfer,
    post,
    begin,
    charge,
    giveBack,
    versionOf,
  };
}
type Ledger = Awaited<ReturnType<typeof aLedger>>;

const eventsSql = `
  SELECT event_id AS id, sequence, payload FROM ledger.outbox ORDER BY payment_id, sequence`;
const rowsSql = `
  SELECT txn_id, state, amount, failure_code, settled_at, events, refund_reserved, amount_refunded,
         action_expires_at, authorized_at, amount_captured, closed_by
  FROM ledger.transactions ORDER BY txn_id`;

/** Puts texts of events back, as a rewind does. */
function restore(to: Database, texts: readonly string[]): Promise<RestoredEvents> {
  return to.transaction(async (tx) => {
    await tx.query('INSERT INTO ledger.rewinds (since) VALUES (now())');
    const restorer = openEventRestorer(tx);
    await restorer.take(texts.map((text) => Buffer.from(text)));
    return restorer.end();
  });
}

type Archived = { id: string; payload: string };

/** Has one ledger told what the other one had told. */
async function rewind(from: Database, to: Database): Promise<void> {
  const texts = (await from.query<Archived>(eventsSql)).map(({ payload }) => payload);
  const all = { restored: texts.length, contested: [], altered: [], unreadable: 0 };
  assert.deepEqual(await restore(to, texts), all);
}

async function allIsAsItWas(before: Ledger, after: Ledger): Promise<void> {
  assert.deepEqual(await after.owner.query(eventsSql), await before.owner.query(eventsSql));
  assert.deepEqual(await after.owner.query(rowsSql), await before.owner.query(rowsSql));
  const open = 'SELECT event_type FROM ledger.told WHERE adopted_at IS NULL';
  assert.deepEqual(await after.owner.query(open), []);
}

for (const seed of [1, 2, 3]) {
  test(`refunds of a transfer that were told come out as they were, in whatever order they come again (${seed})`, async (context) => {
    const [before, after] = [await aLedger(context), await aLedger(context)];
    const payment = aPayment({ amount: 1_000n });
    const refunds = [
      aRefund(payment, { amount: 300n }),
      aRefund(payment, { amount: 800n }),
      aRefund(payment),
      aRefund(payment, { amount: 1n }),
      aRefund(payment),
    ];
    await before.transfer(payment);
    for (const refund of refunds) await before.post(refund);
    await rewind(before.owner, after.owner);
    await after.transfer(payment);
    for (const refund of shuffled(refunds, createRandom(seed))) await after.post(refund);
    await allIsAsItWas(before, after);
    // What is new goes on behind it.
    const late = aRefund(payment);
    assert.deepEqual(await after.post(late), { outcome: 'settled', state: 'failed' });
    const [next] = await after.owner.query<{ sequence: number }>(
      'SELECT sequence FROM ledger.outbox WHERE txn_id = $1',
      [late.txnId],
    );
    assert.equal(next?.sequence, 7);
  });
}

test('refunds of a card that were told wait for its charge, and each gets what it had', async (context) => {
  const [before, after] = [await aLedger(context), await aLedger(context)];
  const payment = aPayment({ amount: 1_000n, paymentMethod: 'pm_card_visa' });
  const now = Date.now();
  const [first, rest, none] = [{ amount: 300n }, {}, {}].map((wish, n) =>
    aRefund(payment, { ...wish, acceptedAt: new Date(now + n) }),
  ) as [AcceptedFollowUp, AcceptedFollowUp, AcceptedFollowUp];
  await before.begin(payment);
  await before.charge(payment);
  for (const refund of [first, rest, none]) await before.giveBack(refund);
  await rewind(before.owner, after.owner);
  await after.begin(payment);
  const waiting: FollowUpOutcome[] = [];
  for (const refund of [none, rest, first]) waiting.push(await after.post(refund));
  // What failed needs no payment: it is told.
  assert.deepEqual(
    waiting.map(({ outcome }) => outcome),
    ['settled', 'waiting', 'waiting'],
  );
  await after.charge(payment);
  const { txnId: paymentId } = payment;
  assert.deepEqual(await after.post(rest), { outcome: 'unasked', paymentId });
  const refunds = [first, rest].map(({ txnId }, n) => ({ txnId, amount: n === 0 ? 300n : 700n }));
  await after.followUps.recall!({ paymentId, refunds });
  assert.deepEqual(await after.giveBack(rest), { outcome: 'waiting' });
  for (const refund of [first, rest]) await after.giveBack(refund);
  await allIsAsItWas(before, after);
});

test('what the provider gave back and nobody was told of is taken over, and nobody else gets it', async (context) => {
  const after = await aLedger(context);
  const payment = aPayment({ amount: 1_000n, paymentMethod: 'pm_card_visa' });
  const { txnId: paymentId } = payment;
  const [given, rest, refused, late] = [
    aRefund(payment, { amount: 300n }),
    aRefund(payment),
    aRefund(payment, { amount: 900n }),
    aRefund(payment, { amount: 200n }),
  ];
  await after.begin(payment);
  await after.charge(payment);
  await after.owner.query('INSERT INTO ledger.rewinds (since) VALUES (now())');
  assert.equal((await after.post(late)).outcome, 'unasked');
  const failure = { code: 'lost_or_stolen_card', message: 'The card is gone.' };
  await after.followUps.recall!({
    paymentId,
    refunds: [
      { txnId: given.txnId, amount: 300n },
      { txnId: rest.txnId, amount: 600n },
      { txnId: refused.txnId, amount: 900n, failure },
    ],
  });
  // 100 are left for who was never given anything.
  assert.deepEqual(await after.post(late), { outcome: 'settled', state: 'failed' });
  assert.deepEqual(await after.post(refused), { outcome: 'settled', state: 'failed' });
  assert.deepEqual((await after.followUps.find(refused.txnId))?.failure, failure);
  const reserved = await after.giveBack(rest);
  assert.ok(reserved.outcome === 'reserved');
  assert.equal(reserved.followUp.money.amount, 600n);
  await after.giveBack(given);
  const [row] = await after.owner.query(
    'SELECT refund_reserved AS held, amount_refunded AS given FROM ledger.transactions WHERE txn_id = $1',
    [paymentId],
  );
  assert.deepEqual(row, { held: 900n, given: 900n });
});

test('of two cancellations the one that was told to have ended the payment does so again, with its steps and its dispute', async (context) => {
  const [before, after] = [await aLedger(context), await aLedger(context)];
  const held = aPayment({ amount: 500n, paymentMethod: 'pm_card_visa' });
  const disputed = aPayment({ amount: 700n, paymentMethod: 'pm_card_visa' });
  const closing = (): AcceptedFollowUp => ({ ...aRefund(held), kind: 'cancellation' });
  const [winner, loser] = [closing(), closing()];
  const failure = { code: 'payment_canceled', message: 'The payment was cancelled.' };
  const hold = async ({ ledger, versionOf }: Ledger) => {
    const { txnId } = held;
    const wait = { txnId, withinMs: 60_000, traceparent };
    await ledger.awaitCustomer({ ...wait, version: await versionOf(txnId) });
    const version = await versionOf(txnId);
    await ledger.authorize({ txnId, version, traceparent, hold: 'stands' });
  };
  const cancel = async ({ post, followUps }: Ledger, followUp: AcceptedFollowUp) => {
    const posted = await post(followUp);
    if (!('followUp' in posted)) return posted;
    const { txnId, version } = posted.followUp;
    const result = { state: 'succeeded' as const };
    const payment = { result: { state: 'canceled' as const, failure } };
    const end = { traceparent, settledAt: new Date(), result, payment };
    await followUps.settle({ txnId, version, ...end });
    return posted;
  };
  const dispute = { disputeId: 'dp_1', amount: 700n, currency: 'EUR', reason: 'fraudulent' };
  await before.begin(held);
  await hold(before);
  await cancel(before, winner);
  await cancel(before, loser);
  const intentId = await before.begin(disputed);
  await before.charge(disputed);
  await before.ledger.noteDispute({ provider: 'stripe', intentId, ...dispute });
  const refund = aRefund(disputed, { amount: 50n });
  await before.giveBack(refund);
  await rewind(before.owner, after.owner);

  await after.begin(held);
  await hold(after);
  assert.equal((await cancel(after, loser)).outcome, 'settled');
  // Whoever looks at the payment first may see that its intent is let go.
  const { txnId } = held;
  const version = await after.versionOf(txnId);
  const letGo = { state: 'canceled' as const, failure };
  const end = { txnId, version, traceparent, settledAt: new Date(), result: letGo };
  assert.deepEqual(await after.ledger.settle(end), { outcome: 'settled' });
  await cancel(after, winner);
  await after.begin(disputed);
  await after.charge(disputed);
  await after.followUps.recall!({
    paymentId: disputed.txnId,
    refunds: [{ txnId: refund.txnId, amount: 50n }],
  });
  await after.giveBack(refund);
  await after.ledger.noteDispute({ provider: 'stripe', intentId, ...dispute });
  await allIsAsItWas(before, after);
});

test('a step that was told is there again where its payment is past it, and an end stays whatever is found', async (context) => {
  const [before, after] = [await aLedger(context), await aLedger(context)];
  const [late, failed] = [
    aPayment({ paymentMethod: 'pm_card_visa' }),
    aPayment({ paymentMethod: 'pm_card_visa' }),
  ];
  await before.begin(late);
  const { txnId } = late;
  const version = await before.versionOf(txnId);
  await before.ledger.awaitCustomer({ txnId, version, withinMs: 60_000, traceparent });
  await before.charge(late);
  await before.begin(failed);
  const result = { state: 'failed' as const, failure: { code: 'expired_card', message: 'It is.' } };
  const declined = { txnId: failed.txnId, traceparent, settledAt: new Date(), result };
  await before.ledger.settle({ ...declined, version: await before.versionOf(failed.txnId) });
  await rewind(before.owner, after.owner);
  for (const payment of [late, failed]) await after.begin(payment);
  await after.charge(late);
  const other = { ...result, failure: { code: 'card_declined', message: 'No.' } };
  const again = { ...declined, result: other, version: await after.versionOf(failed.txnId) };
  await after.ledger.settle(again);
  await allIsAsItWas(before, after);
});

test('what was told, and was decided anew before it was put back, is named: in other words, otherwise, or under another number', async (context) => {
  const [before, after] = [await aLedger(context), await aLedger(context)];
  const [payment, other] = [aPayment({ amount: 1_000n }), aPayment({ amount: 100n })];
  const [most, some] = [aRefund(payment, { amount: 900n }), aRefund(payment, { amount: 200n })];
  for (const each of [payment, other]) await before.transfer(each);
  for (const refund of [most, some]) await before.post(refund);
  // A failover whose services went on: another time, and another refund that is first.
  await after.transfer(payment);
  for (const refund of [some, most]) await after.post(refund);
  const told = await before.owner.query<Archived & { about: TxnId }>(
    'SELECT event_id AS id, txn_id AS about, payload FROM ledger.outbox ORDER BY event_id',
  );
  const texts = told.map(({ payload }) => payload);
  const altered = told.filter(({ about }) => about !== other.txnId).map(({ id }) => id);
  assert.equal(altered.length, 3);
  const once = { restored: 1, contested: [], altered, unreadable: 0 };
  assert.deepEqual(await restore(after.owner, texts), once);
  // By then both texts of an event are in the archive, and the first one is kept.
  const again = (await after.owner.query<Archived>(eventsSql)).map(({ payload }) => payload);
  const third = await aLedger(context);
  const both = await restore(third.owner, [...texts, ...again]);
  const [paid] = told.filter(({ about }) => about === payment.txnId);
  assert.ok(both.altered.includes(paid!.id), JSON.stringify(both));
  const kept = await third.owner.query('SELECT payload FROM ledger.outbox WHERE event_id = $1', [
    paid!.id,
  ]);
  assert.deepEqual(kept, [{ payload: paid!.payload }]);
});

test('events that left the outbox by age are as their transactions say, and neither put back nor named', async (context) => {
  const { owner, begin, charge, versionOf, giveBack, ledger } = await aLedger(context);
  const payment = aPayment({ amount: 1_000n, paymentMethod: 'pm_card_visa' });
  const { txnId } = payment;
  await begin(payment);
  const version = await versionOf(txnId);
  await ledger.awaitCustomer({ txnId, version, withinMs: 60_000, traceparent });
  await charge(payment);
  for (const amount of [300n, 800n]) await giveBack(aRefund(payment, { amount }));
  const texts = (await owner.query<Archived>(eventsSql)).map(({ payload }) => payload);
  assert.equal(texts.length, 4);
  await owner.query(
    `UPDATE ledger.outbox SET state = 'published', published_at = now(), published_epoch = 1`,
  );
  await owner.query('DELETE FROM ledger.outbox');
  const nothing = { restored: 0, contested: [], altered: [], unreadable: 0 };
  assert.deepEqual(await restore(owner, texts), nothing);
});
