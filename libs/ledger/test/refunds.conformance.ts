import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { deriveEventId, type PartnerId, type TxnId } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import {
  aTransfer,
  bookTransferOf,
  pendingOf,
  posting,
  type FollowUpsUnderTest,
  settledNow,
  traceparent,
} from './under-test.ts';
import { capturing, refundCap } from './reserving.conformance.ts';
import { UnpostableError } from '../ledger.ts';
import type {
  FollowUpOutcome,
  FollowUpPosting,
  FollowUps,
  ReservedFollowUp,
} from '../follow-ups.ts';

type Open = (context: TestContext) => Promise<FollowUpsUnderTest>;

/** What refunds promise, whatever the ledger is stored in. */
export function refundsConformance(name: string, open: Open, { rounds = 25 } = {}): void {
  suite(name, () => {
    bookRefunds(open);
    listing(open);
    waiting(open);
    refusals(open);
    refundCap(open, rounds);
    capturing(open);
    cardRefunds(open);
    duplicates(open);
  });
}

/** A card payment of 100 that was charged. */
async function aCharge({ ledger }: FollowUpsUnderTest) {
  const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
  const { txnId } = payment;
  await ledger.post([pendingOf(payment)]);
  await ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId: 'pi_1' });
  const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
  await ledger.settle({ txnId, version: 2, traceparent, chargeId: 'ch_1', ...settlement });
  return payment;
}

function bookRefunds(open: Open): void {
  test('a refund of a book transfer moves its amount back and is the payment’s second event', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const refund = aRefund(payment, { amount: 40n, reason: 'two of five were broken' });
    const outcome = await store.followUps.post(posting(refund));
    assert.deepEqual(outcome, { outcome: 'settled', state: 'succeeded' });
    assert.deepEqual(await store.entries(), [
      { txnId: payment.txnId, debit: 'acme:clearing', credit: 'acme:payable', amount: 100n },
      { txnId: refund.txnId, debit: 'acme:payable', credit: 'acme:clearing', amount: 40n },
    ]);
    const [, written] = await store.events();
    assert.equal(written?.eventId, deriveEventId(refund.txnId, 'refund.succeeded'));
    assert.deepEqual([written.sequence, written.txnId], [2, refund.txnId]);
    const row = await store.followUps.find(refund.txnId);
    assert.deepEqual(row?.money, { amount: 40n, currency: 'EUR' });
    assert.deepEqual(row.details, refund.details);
    const kinds = [payment, refund].map(({ txnId, kind }) => [txnId, kind] as const);
    assert.deepEqual(await store.ledger.kindsOf(kinds.map(([id]) => id)), new Map(kinds));
    assert.equal((await store.ledger.find(payment.txnId))?.amountRefunded, 40n);
  });

  test('a refund without an amount gives back all that is left', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    await store.followUps.post(posting(aRefund(payment, { amount: 30n })));
    const rest = aRefund(payment);
    await store.followUps.post(posting(rest));
    const row = await store.followUps.find(rest.txnId);
    assert.deepEqual([row?.money?.amount, row?.details], [70n, {}]);
  });
}

function listing(open: Open): void {
  test('a list shows a payment’s refunds newest first, by pages, and nobody else’s', async (context) => {
    const store = await open(context);
    const [payment, neighbour] = [await aTransfer(store), await aTransfer(store)];
    const seconds = [0, 1, 1, 1, 2];
    const made = seconds.map((second) => {
      const acceptedAt = new Date(Date.UTC(2026, 2, 4, 5, 6, second));
      return aRefund(payment, { amount: 10n, acceptedAt });
    });
    const others = [aRefund(neighbour, { amount: 1n }), aRefund(payment, { partner: 'globex' })];
    others.push(aRefund(payment, { kind: 'cancellation' }));
    for (const each of [...made, ...others]) await store.followUps.post(posting(each));
    const { txnId: paymentId, partnerId } = payment;
    const newestFirst = made
      .toSorted((one, two) => +two.acceptedAt - +one.acceptedAt || (two.txnId < one.txnId ? -1 : 1))
      .map(({ txnId }) => txnId);
    const walked: string[] = [];
    for (let after: TxnId | undefined, hasMore = true; hasMore; after = walked.at(-1) as TxnId) {
      const page = await store.followUps.listOf({ paymentId, partnerId, limit: 2, after });
      assert.ok(page.outcome === 'page');
      walked.push(...page.refunds.map(({ txnId }) => txnId));
      ({ hasMore } = page);
    }
    assert.deepEqual(walked, newestFirst);
    const few = { paymentId, partnerId, limit: 100, bytesMax: 2_500 };
    const first = await store.followUps.listOf(few);
    assert.ok(first.outcome === 'page');
    const ids = first.refunds.map(({ txnId }) => txnId);
    assert.deepEqual([ids, first.hasMore], [newestFirst.slice(0, 2), true]);
    for (const { txnId: after } of [...others, aRefund(payment)]) {
      const lost = await store.followUps.listOf({ paymentId, partnerId, limit: 2, after });
      assert.deepEqual(lost, { outcome: 'unknown-cursor' });
    }
    const theirs = { paymentId: neighbour.txnId, partnerId: 'globex' as PartnerId, limit: 2 };
    const none = await store.followUps.listOf(theirs);
    assert.deepEqual(none, { outcome: 'page', refunds: [], hasMore: false });
  });
}

function waiting(open: Open): void {
  test('a refund waits for a payment that is pending or not there, and follows once it succeeded', async (context) => {
    const { ledger, followUps, events } = await open(context);
    const payment = aPayment({ amount: 100n });
    const refund = posting(aRefund(payment, { amount: 1n }));
    assert.deepEqual(await followUps.post(refund), { outcome: 'waiting' });
    await ledger.post([pendingOf(payment)]);
    assert.deepEqual(await followUps.post(refund), { outcome: 'waiting' });
    assert.deepEqual(await events(), []);
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    await ledger.settle({ txnId: payment.txnId, version: 1, traceparent, ...settlement });
    assert.deepEqual(await followUps.post(refund), { outcome: 'settled', state: 'succeeded' });
    assert.deepEqual(
      (await events()).map(({ sequence }) => sequence),
      [1, 2],
    );
  });

  test('refunds that waited are decided in the order in which they were accepted, whoever takes them up', async (context) => {
    const { ledger, followUps, otherFollowUps } = await open(context);
    const payment = aPayment({ amount: 100n });
    await ledger.post([pendingOf(payment)]);
    const wishes = [{ amount: 30n }, {}, { amount: 1n }];
    const refunds = wishes.map((wish, n) => {
      return posting(aRefund(payment, { ...wish, acceptedAt: new Date(Date.now() + n) }));
    });
    for (const refund of refunds.toReversed()) {
      assert.deepEqual(await followUps.post(refund), { outcome: 'waiting' });
    }
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    await ledger.settle({ txnId: payment.txnId, version: 1, traceparent, ...settlement });
    const [first, rest, late] = refunds as [FollowUpPosting, FollowUpPosting, FollowUpPosting];
    for (const behind of [late, rest]) {
      assert.deepEqual(await otherFollowUps.post(behind), { outcome: 'waiting' });
    }
    const succeeded = { outcome: 'settled', state: 'succeeded' };
    assert.deepEqual(await followUps.post(first), succeeded);
    assert.deepEqual(await otherFollowUps.post(late), { outcome: 'waiting' });
    assert.deepEqual(await otherFollowUps.post(rest), succeeded);
    assert.equal((await followUps.find(rest.followUp.txnId))?.money?.amount, 70n);
    assert.deepEqual(await followUps.post(late), { outcome: 'settled', state: 'failed' });
  });
}

function refusals(open: Open): void {
  const codeOf = async (refunds: FollowUps, refund: Parameters<typeof posting>[0]) => {
    const outcome = await refunds.post(posting(refund));
    assert.deepEqual(outcome, { outcome: 'settled', state: 'failed' });
    return (await refunds.find(refund.txnId))?.failure?.code;
  };

  test('a refund of more than is left fails, and the next one that fits succeeds', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const tooMuch = aRefund(payment, { amount: 101n });
    assert.equal(await codeOf(store.followUps, tooMuch), 'amount_exceeds_refundable');
    const all = await store.followUps.post(posting(aRefund(payment)));
    assert.deepEqual(all, { outcome: 'settled', state: 'succeeded' });
    const nothingLeft = aRefund(payment);
    assert.equal(await codeOf(store.followUps, nothingLeft), 'amount_exceeds_refundable');
    assert.deepEqual(
      (await store.events()).map(({ sequence, eventType }) => [sequence, eventType]),
      [
        [1, 'payment.succeeded'],
        [2, 'refund.failed'],
        [3, 'refund.succeeded'],
        [4, 'refund.failed'],
      ],
    );
  });

  test('a refund of a payment that failed fails', async (context) => {
    const { ledger, followUps } = await open(context);
    const payment = aPayment();
    const failure = { code: 'card_declined', message: 'declined' };
    const settlement = { result: { state: 'failed' as const, failure }, settledAt: settledNow };
    await ledger.post([{ ...pendingOf(payment), settlement }]);
    assert.equal(await codeOf(followUps, aRefund(payment)), 'payment_not_refundable');
  });

  test('another partner’s payment is not there, and a day later it never will be', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const foreign = aRefund(payment, { partner: 'globex' });
    assert.deepEqual(await store.followUps.post(posting(foreign)), { outcome: 'waiting' });
    const old = aRefund(payment, {
      partner: 'globex',
      acceptedAt: new Date(Date.now() - 90_000_000),
    });
    assert.equal(await codeOf(store.followUps, old), 'payment_not_refundable');
    const written = (await store.events()).find(({ txnId }) => txnId === old.txnId);
    assert.equal(written?.sequence, 1);
    assert.equal((await store.ledger.find(payment.txnId))?.version, 1);
  });
}

function cardRefunds(open: Open): void {
  test('a refund of a charge is reserved, and moves money once the provider gave it back', async (context) => {
    const store = await open(context);
    const payment = await aCharge(store);
    const refund = aRefund(payment, { amount: 40n });
    const reserved = reservedOf(await store.followUps.post(posting(refund)));
    assert.deepEqual(reserved.provider, { name: 'stripe', intentId: 'pi_1', chargeId: 'ch_1' });
    assert.deepEqual([reserved.money.amount, (await store.entries()).length], [40n, 1]);
    const request = settlementOf(reserved, { state: 'succeeded' });
    assert.deepEqual(await store.followUps.settle(request), { outcome: 'settled' });
    assert.deepEqual(await store.followUps.settle(request), { outcome: 'stale' });
    const [, moved] = await store.entries();
    assert.deepEqual(
      [moved?.debit, moved?.credit, moved?.amount],
      ['acme:payable', 'provider.stripe:clearing', 40n],
    );
    assert.equal((await store.followUps.find(refund.txnId))?.provider?.refundId, 're_1');
  });

  test('a reserved refund holds its amount, and gives it back when the provider refuses', async (context) => {
    const store = await open(context);
    const payment = await aCharge(store);
    const reserved = reservedOf(await store.followUps.post(posting(aRefund(payment))));
    const meanwhile = await store.followUps.post(posting(aRefund(payment, { amount: 1n })));
    assert.deepEqual(meanwhile, { outcome: 'settled', state: 'failed' });
    const failure = { code: 'charge_disputed', message: 'disputed' };
    await store.followUps.settle(settlementOf(reserved, { state: 'failed', failure }));
    assert.equal((await store.entries()).length, 1);
    const again = reservedOf(await store.followUps.post(posting(aRefund(payment))));
    assert.equal(again.money.amount, 100n);
  });

  test('a refund that was reserved and left is reserved still, for the same amount', async (context) => {
    const store = await open(context);
    const payment = await aCharge(store);
    const refund = posting(aRefund(payment));
    const first = reservedOf(await store.followUps.post(refund));
    const { outcome, ...again } = await store.otherFollowUps.post(refund);
    assert.deepEqual([outcome, again], ['unfinished', { followUp: first }]);
    const named = { txnId: first.txnId, version: first.version, refundId: 're_1' };
    const stored = { outcome: 'stored', version: first.version + 1 };
    assert.deepEqual(await store.followUps.storeRefundId(named), stored);
    const late = settlementOf(first, { state: 'succeeded' });
    assert.deepEqual(await store.followUps.settle(late), { outcome: 'stale' });
  });

  test('an end of a refund that can never be stored is unpostable, and its amount stays held', async (context) => {
    const store = await open(context);
    const payment = await aCharge(store);
    const reserved = reservedOf(await store.followUps.post(posting(aRefund(payment))));
    const { txnId, version } = reserved;
    const end = settlementOf(reserved, { state: 'succeeded' });
    for (const bad of ['a NUL \0', 'half a surrogate \ud800']) {
      const named = { txnId, version, refundId: bad };
      await assert.rejects(store.followUps.storeRefundId(named), UnpostableError, bad);
      const failed = { state: 'failed', failure: { code: 'refused', message: bad } } as const;
      const ends = [settlementOf(reserved, failed), { ...end, refundId: bad }];
      for (const each of ends) await assert.rejects(store.followUps.settle(each), UnpostableError);
    }
    assert.deepEqual(await store.followUps.find(txnId), reserved);
    assert.deepEqual(await store.followUps.settle(end), { outcome: 'settled' });
  });
}

function duplicates(open: Open): void {
  test('a refund posted again, by ten workers at once, is one refund', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const refund = posting(aRefund(payment, { amount: 60n }));
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        [store.followUps, store.otherFollowUps][n % 2]!.post(refund),
      ),
    );
    const settled = outcomes.filter(({ outcome }) => outcome === 'settled');
    const known = outcomes.filter(({ outcome }) => outcome === 'already-recorded');
    assert.deepEqual([settled.length, known.length], [1, 9]);
    assert.equal((await store.entries()).length, 2);
  });

  test('a refund’s key used for another refund is a key conflict, reported once', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const winner = aRefund(payment, { key: 'one', amount: 1n });
    const loser = posting(aRefund(payment, { key: 'one', amount: 2n }));
    await store.followUps.post(posting(winner));
    assert.deepEqual(await store.followUps.post(loser), {
      outcome: 'key-conflict',
      winner: winner.fingerprint,
    });
    for (let n = 0; n < 2; n += 1) await store.followUps.recordKeyConflict(loser);
    const conflicts = (await store.events()).filter(
      ({ eventType }) => eventType === 'payment.key_conflict',
    );
    assert.equal(conflicts.length, 1);
  });

  test('a payment and a refund may have the same key', async (context) => {
    const store = await open(context);
    const payment = aPayment({ key: 'one' });
    await store.ledger.post([bookTransferOf(payment)]);
    const outcome = await store.followUps.post(posting(aRefund(payment, { key: 'one' })));
    assert.deepEqual(outcome, { outcome: 'settled', state: 'succeeded' });
  });
}

function reservedOf(outcome: FollowUpOutcome): ReservedFollowUp {
  assert.equal(outcome.outcome, 'reserved');
  return outcome.followUp;
}

function settlementOf(
  { txnId, version }: ReservedFollowUp,
  result: Parameters<FollowUps['settle']>[0]['result'],
) {
  return { txnId, version, result, settledAt: settledNow, traceparent, refundId: 're_1' };
}
