import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  deriveEventId,
  type AcceptedFollowUp,
  type AcceptedPayment,
  type Money,
} from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import fc from 'fast-check';
import {
  canceledBy,
  type FollowUpOutcome,
  type FollowUps,
  type ReservedFollowUp,
} from '../follow-ups.ts';
import {
  aTransfer,
  pendingOf,
  posting,
  settledNow,
  traceparent,
  type FollowUpsUnderTest,
} from './under-test.ts';

/**
 * The part of the refunds' promises that is about their cap; `rounds` payments are refunded at
 * will.
 */
export function refundCap(
  open: (context: TestContext) => Promise<FollowUpsUnderTest>,
  rounds: number,
): void {
  test('of ten refunds of 60 percent at once one succeeds', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const outcomes = await atOnce(store, payment, { refunds: 10, amount: 60n });
    assert.deepEqual(outcomes, { succeeded: 1, failed: 9 });
    assert.equal((await store.ledger.find(payment.txnId))?.amountRefunded, 60n);
  });

  test('of fifty refunds of 2 percent, twenty at once, all succeed, in an unbroken sequence', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const outcomes = await atOnce(store, payment, { refunds: 50, amount: 2n });
    assert.deepEqual(outcomes, { succeeded: 50 });
    assert.deepEqual(
      (await store.events()).map(({ sequence }) => sequence),
      Array.from({ length: 51 }, (_, n) => n + 1),
    );
  });

  test('whatever refunds come at once, what is given back never exceeds the payment', async (context) => {
    const store = await open(context);
    const amounts = fc.array(fc.option(fc.bigInt(1n, 120n), { nil: undefined }), {
      minLength: 1,
      maxLength: 8,
    });
    const property = fc.asyncProperty(amounts, async (wishes) => {
      const payment = await aTransfer(store);
      const some = wishes.map((amount) => aRefund(payment, amount === undefined ? {} : { amount }));
      await Promise.all(
        some.map((refund, n) =>
          postUntilDecided([store.followUps, store.otherFollowUps][n % 2]!, refund),
        ),
      );
      const rows = await Promise.all(some.map(({ txnId }) => store.followUps.find(txnId)));
      let given = 0n;
      for (const row of rows) if (row?.state === 'succeeded') given += row.money!.amount;
      const { amountRefunded } = (await store.ledger.find(payment.txnId))!;
      assert.equal(given, amountRefunded);
      assert.ok(given <= 100n);
      // A refund fails only for want of money: what is left is less than what any of them asked.
      for (const row of rows) {
        if (row?.state !== 'failed') continue;
        assert.ok((row.details.amount ?? 1n) > 100n - given);
      }
    });
    await fc.assert(property, { numRuns: rounds });
  });
}

/**
 * As a worker and its resolver do: of refunds at once one may not have its payment in time, and
 * then those behind it wait for it.
 */
async function postUntilDecided(
  followUps: FollowUps,
  refund: AcceptedFollowUp,
): Promise<FollowUpOutcome> {
  for (;;) {
    const outcome = await followUps.post(posting(refund));
    if (outcome.outcome !== 'waiting') return outcome;
  }
}

async function atOnce(
  { followUps, otherFollowUps }: FollowUpsUnderTest,
  payment: ReturnType<typeof aPayment>,
  wish: { refunds: number; amount: bigint },
): Promise<Record<string, number>> {
  let left = wish.refunds;
  const outcomes: FollowUpOutcome[] = [];
  // More at once would only wait for a connection, and a busy machine gives up on that.
  const posters = Array.from({ length: Math.min(20, wish.refunds) }, async (_, n) => {
    while (left > 0) {
      left -= 1;
      const refund = aRefund(payment, { amount: wish.amount });
      outcomes.push(await postUntilDecided([followUps, otherFollowUps][n % 2]!, refund));
    }
  });
  await Promise.all(posters);
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) {
    assert.equal(outcome.outcome, 'settled');
    if ('state' in outcome) counts[outcome.state] = (counts[outcome.state] ?? 0) + 1;
  }
  return counts;
}

/** A card payment of 100 whose money is held. */
async function anAuthorized({ ledger }: FollowUpsUnderTest): Promise<AcceptedPayment> {
  const payment = aPayment({
    amount: 100n,
    paymentMethod: 'pm_card_visa',
    captureMethod: 'manual',
  });
  const { txnId } = payment;
  await ledger.post([pendingOf(payment)]);
  await ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId: `pi_${txnId}` });
  const noted = await ledger.authorize({ txnId, version: 2, traceparent, hold: 'stands' });
  assert.deepEqual(noted, { outcome: 'stored', version: 3 });
  return payment;
}

/** Takes the payment for one, which must be free for it. */
async function take(store: FollowUpsUnderTest, one: AcceptedFollowUp): Promise<ReservedFollowUp> {
  const outcome = await store.followUps.post(posting(one));
  assert.ok(outcome.outcome === 'reserved' || outcome.outcome === 'unfinished', outcome.outcome);
  return outcome.followUp;
}

const captured = (amount: bigint) =>
  ({ result: { state: 'captured', amount }, chargeId: 'ch_1' }) as const;
const succeeded = { state: 'succeeded' } as const;

/**
 * A capture or cancellation that came to its end, and its payment with it unless it is left out.
 */
async function settleTaken(
  { followUps }: FollowUpsUnderTest,
  { txnId, version }: ReservedFollowUp,
  end: Pick<Parameters<FollowUpsUnderTest['followUps']['settle']>[0], 'result' | 'payment'>,
) {
  return followUps.settle({ txnId, version, settledAt: settledNow, traceparent, ...end });
}

/** Why a transaction failed that is posted again, or for the first time. */
async function failureOf({ followUps }: FollowUpsUnderTest, one: AcceptedFollowUp) {
  const outcome = await followUps.post(posting(one));
  assert.deepEqual(outcome, { outcome: 'settled', state: 'failed' });
  return (await followUps.find(one.txnId))?.failure?.code;
}

/** What captures and cancellations promise: an authorisation ends once, as one of them says. */
export function capturing(open: (context: TestContext) => Promise<FollowUpsUnderTest>): void {
  test('a part is captured: both rows end, its entry is the capture’s, and refunds are capped by it', async (context) => {
    const store = await open(context);
    const payment = await anAuthorized(store);
    const { txnId } = payment;
    const authorized = (await store.ledger.find(txnId))!;
    assert.ok(authorized.authorizedAt !== undefined && authorized.state === 'pending');
    const early = aRefund(payment, { amount: 1n });
    assert.deepEqual(await store.followUps.post(posting(early)), { outcome: 'waiting' });
    const capture = aRefund(payment, { kind: 'capture', amount: 60n });
    const taken = await take(store, capture);
    assert.equal((await store.ledger.find(txnId))?.closedBy, capture.txnId);
    const settled = await settleTaken(store, taken, { result: succeeded, payment: captured(60n) });
    assert.deepEqual(settled, { outcome: 'settled' });
    const row = (await store.ledger.find(txnId))!;
    assert.deepEqual(
      [row.state, row.amountCaptured, row.closedBy],
      ['captured', 60n, capture.txnId],
    );
    assert.equal(row.provider?.chargeId, 'ch_1');
    assert.deepEqual(await store.entries(), [
      {
        txnId: capture.txnId,
        debit: 'provider.stripe:clearing',
        credit: 'acme:payable',
        amount: 60n,
      },
    ]);
    const told = (await store.events()).map(({ eventType, sequence, txnId: of, eventId }) => {
      assert.equal(eventId, deriveEventId(of as typeof txnId, eventType as 'payment.captured'));
      return [eventType, sequence];
    });
    assert.deepEqual(told, [
      ['payment.authorized', 1],
      ['capture.succeeded', 2],
      ['payment.captured', 3],
    ]);
    assert.equal((await store.followUps.post(posting(early))).outcome, 'unfinished');
    const tooMuch = aRefund(payment, { amount: 60n });
    assert.equal(await failureOf(store, tooMuch), 'amount_exceeds_refundable');
    const rest = await take(store, aRefund(payment));
    assert.equal(rest.money.amount, 59n);
    assert.deepEqual(await store.followUps.post(posting(capture)), {
      outcome: 'already-recorded',
      state: 'succeeded',
    });
  });

  test('of captures and cancellations at once one has the payment, and the others are told its end', async (context) => {
    const store = await open(context);
    const payment = await anAuthorized(store);
    const all = Array.from({ length: 6 }, (_, n) =>
      aRefund(payment, n % 2 === 0 ? { kind: 'capture', amount: 50n } : { kind: 'cancellation' }),
    );
    const outcomes = await Promise.all(
      all.map((each, n) => (n < 3 ? store.followUps : store.otherFollowUps).post(posting(each))),
    );
    const first = outcomes.filter(({ outcome }) => outcome === 'reserved');
    const waiting = outcomes.filter(({ outcome }) => outcome === 'waiting');
    assert.deepEqual([first.length, waiting.length], [1, 5], JSON.stringify(outcomes.map(String)));
    const winner = (first[0] as { followUp: ReservedFollowUp }).followUp;
    const isCapture = winner.kind === 'capture';
    const letGo = { result: canceledBy({ code: 'payment_canceled', message: '' }) };
    await settleTaken(store, winner, {
      result: succeeded,
      payment: isCapture ? captured(50n) : letGo,
    });
    const told = isCapture ? 'payment_already_captured' : 'payment_canceled';
    for (const each of all.filter(({ txnId }) => txnId !== winner.txnId)) {
      assert.equal(await failureOf(store, each), told);
    }
    const { state } = (await store.ledger.find(payment.txnId))!;
    assert.equal(state, isCapture ? 'captured' : 'canceled');
    const sequences = (await store.events()).map(({ sequence }) => sequence);
    assert.deepEqual(sequences, [1, 2, 3, 4, 5, 6, 7, 8]);
  });

  test('captures and cancellations that waited are decided in the order in which they were accepted', async (context) => {
    const store = await open(context);
    const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
    const { txnId } = payment;
    await store.ledger.post([pendingOf(payment)]);
    const at = (n: number) => ({ acceptedAt: new Date(Date.now() + n) });
    const capture = aRefund(payment, { kind: 'capture', ...at(0) });
    const cancellation = aRefund(payment, { kind: 'cancellation', ...at(1) });
    for (const each of [cancellation, capture]) {
      assert.deepEqual(await store.followUps.post(posting(each)), { outcome: 'waiting' });
    }
    await store.ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId: 'pi_1' });
    await store.ledger.authorize({ txnId, version: 2, traceparent, hold: 'stands' });
    assert.deepEqual(await store.followUps.post(posting(cancellation)), { outcome: 'waiting' });
    assert.equal((await store.ledger.find(txnId))?.closedBy, undefined);
    const taken = await take(store, capture);
    await settleTaken(store, taken, { result: succeeded, payment: captured(100n) });
    assert.equal(await failureOf(store, cancellation), 'payment_already_captured');
  });

  test('a capture that failed lets go of its payment, and more than was authorised never takes it', async (context) => {
    const store = await open(context);
    const payment = await anAuthorized(store);
    const more = aRefund(payment, { kind: 'capture', amount: 101n });
    assert.equal(await failureOf(store, more), 'amount_exceeds_authorized');
    const refused = await take(store, aRefund(payment, { kind: 'capture' }));
    assert.equal(refused.money.amount, 100n);
    const next = aRefund(payment, { kind: 'cancellation', reason: 'sold out' });
    assert.deepEqual(await store.followUps.post(posting(next)), { outcome: 'waiting' });
    const failure = { code: 'card_declined', message: 'no' };
    await settleTaken(store, refused, { result: { state: 'failed', failure } });
    const row = (await store.ledger.find(payment.txnId))!;
    assert.deepEqual([row.state, row.closedBy], ['pending', undefined]);
    const again = await settleTaken(store, refused, { result: succeeded, payment: captured(100n) });
    assert.deepEqual(again, { outcome: 'stale' });
    const cancellation = await take(store, next);
    const result = canceledBy({ code: 'payment_canceled', message: '' });
    await settleTaken(store, cancellation, { result: succeeded, payment: { result } });
    assert.deepEqual(await store.entries(), []);
    assert.equal((await store.ledger.find(payment.txnId))?.state, 'canceled');
  });

  test('what the provider can never move fails before it holds anything', async (context) => {
    const store = await open(context);
    const payment = await anAuthorized(store);
    const failure = { code: 'amount_not_expressible', message: 'no such amount' };
    const refuse = ({ amount }: Money) => (amount === 55n ? failure : undefined);
    const post = (one: AcceptedFollowUp) => store.followUps.post({ ...posting(one), refuse });
    const failed = { outcome: 'settled', state: 'failed' };
    const odd = aRefund(payment, { kind: 'capture', amount: 55n });
    assert.deepEqual(await post(odd), failed);
    assert.deepEqual((await store.followUps.find(odd.txnId))?.failure, failure);
    const capture = await take(store, aRefund(payment, { kind: 'capture', amount: 60n }));
    const payments = { result: succeeded, payment: captured(60n) };
    assert.deepEqual(await settleTaken(store, capture, payments), { outcome: 'settled' });
    assert.deepEqual(await post(aRefund(payment, { amount: 55n })), failed);
    const rest = await take(store, aRefund(payment, {}));
    assert.equal(rest.money.amount, 60n);
    // One that was held before, by a worker that knew no better.
    const before = await anAuthorized(store);
    const held = aRefund(before, { kind: 'capture', amount: 55n });
    await take(store, held);
    assert.deepEqual(await post(held), failed);
    await take(store, aRefund(before, { kind: 'capture' }));
  });

  test('a payment that the provider let go is canceled by nobody, and is told once that it was authorised', async (context) => {
    const store = await open(context);
    const payment = await anAuthorized(store);
    const { txnId } = payment;
    for (const version of [2, 3]) {
      const again = await store.ledger.authorize({ txnId, version, traceparent, hold: 'stands' });
      assert.deepEqual(again, { outcome: 'stale' });
    }
    const result = canceledBy({ code: 'authorization_expired', message: '' });
    const end = { txnId, settledAt: settledNow, traceparent, result };
    const late = aRefund(payment, { kind: 'capture' });
    assert.deepEqual(await store.ledger.settle({ ...end, version: 3 }), { outcome: 'settled' });
    assert.equal(await failureOf(store, late), 'authorization_expired');
    const refund = aRefund(payment);
    assert.equal(await failureOf(store, refund), 'payment_not_refundable');
    const types = (await store.events()).map(({ eventType }) => eventType);
    assert.deepEqual(types, [
      'payment.authorized',
      'payment.canceled',
      'capture.failed',
      'refund.failed',
    ]);
  });

  test('what is not authorised is waited for, and never captured once it ended otherwise', async (context) => {
    const store = await open(context);
    const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
    const capture = aRefund(payment, { kind: 'capture' });
    assert.deepEqual(await store.followUps.post(posting(capture)), { outcome: 'waiting' });
    await store.ledger.post([pendingOf(payment)]);
    assert.deepEqual(await store.followUps.post(posting(capture)), { outcome: 'waiting' });
    const end = { settledAt: settledNow, traceparent, result: succeeded };
    await store.ledger.settle({ txnId: payment.txnId, version: 1, ...end });
    assert.equal(await failureOf(store, capture), 'payment_not_authorized');
    const transfer = await aTransfer(store);
    const cancellation = aRefund(transfer, { kind: 'cancellation' });
    assert.equal(await failureOf(store, cancellation), 'payment_not_authorized');
    const theirs = aRefund(await anAuthorized(store), { kind: 'capture', partner: 'globex' });
    assert.deepEqual(await store.followUps.post(posting(theirs)), { outcome: 'waiting' });
  });

  test('a list shows what is authorised apart from what is pending', async (context) => {
    const store = await open(context);
    const payment = await anAuthorized(store);
    const pending = aPayment();
    await store.ledger.post([pendingOf(pending)]);
    for (const [status, { txnId }] of [
      ['authorized', payment],
      ['pending', pending],
    ] as const) {
      const listed = await store.ledger.list({ partnerId: payment.partnerId, limit: 5, status });
      assert.ok(listed.outcome === 'page');
      assert.deepEqual(
        listed.payments.map((each) => each.txnId),
        [txnId],
      );
    }
  });
}
