import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { aPayment, aRefund, eventually } from '@triplock/testing';
import {
  type ChargingUnderTest,
  pendingOf,
  posting,
  settledNow,
  traceparent,
} from './under-test.ts';
import { holding } from './holds.conformance.ts';
import { awaiting, waking } from './waking.conformance.ts';

type Open = (context: TestContext) => Promise<ChargingUnderTest>;

const card = () => aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
const stripe = { provider: 'stripe' as const };

/** What a ledger promises while a provider is asked to charge. */
export function chargingConformance(name: string, open: Open): void {
  suite(name, () => {
    intents(open);
    due(open);
    awaiting(open);
    waking(open);
    holding(open);
  });
}

function intents(open: Open): void {
  test('a card payment is pending until it is settled, with its intent and its charge', async (context) => {
    const { ledger, entries } = await open(context);
    const payment = card();
    const { txnId } = payment;
    await ledger.post([pendingOf(payment)]);
    const stored = await ledger.storeIntent({ txnId, version: 1, ...stripe, intentId: 'pi_1' });
    assert.deepEqual(stored, { outcome: 'stored', version: 2 });
    assert.deepEqual((await ledger.find(txnId))?.provider, { name: 'stripe', intentId: 'pi_1' });
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    const request = { txnId, version: 2, traceparent, chargeId: 'ch_1', ...settlement };
    assert.deepEqual(await ledger.settle(request), { outcome: 'settled' });
    const row = await ledger.find(txnId);
    assert.deepEqual(row?.provider, { name: 'stripe', intentId: 'pi_1', chargeId: 'ch_1' });
    assert.equal(row.details.paymentMethod, 'pm_card_visa');
    const [moved] = await entries();
    assert.deepEqual([moved?.debit, moved?.credit], ['provider.stripe:clearing', 'acme:payable']);
  });

  test('what one call charged is settled with its intent at once, where the row has no other', async (context) => {
    const { ledger, another, entries } = await open(context);
    const [payment, other] = [card(), card()];
    await ledger.post([pendingOf(payment), pendingOf(other)]);
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    const end = (n: number) => ({
      txnId: payment.txnId,
      version: 1,
      traceparent,
      chargeId: `ch_${n}`,
      intent: { ...stripe, intentId: `pi_${n}` },
      ...settlement,
    });
    const outcomes = await Promise.all(
      [1, 2, 3, 4].map((n) => [ledger, another][n % 2]!.settle(end(n))),
    );
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'settled').length, 1);
    const kept = outcomes.findIndex(({ outcome }) => outcome === 'settled') + 1;
    const ids = { intentId: `pi_${kept}`, chargeId: `ch_${kept}` };
    assert.deepEqual((await ledger.find(payment.txnId))?.provider, { name: 'stripe', ...ids });
    const [moved] = await entries();
    assert.deepEqual([moved?.debit, moved?.credit], ['provider.stripe:clearing', 'acme:payable']);

    const { txnId } = other;
    await ledger.storeIntent({ txnId, version: 1, ...stripe, intentId: 'pi_stored' });
    assert.deepEqual(await ledger.settle({ ...end(5), txnId, version: 2 }), { outcome: 'stale' });
    assert.equal((await ledger.find(txnId))?.provider?.intentId, 'pi_stored');
  });

  test('of ten workers storing an intent for one payment one succeeds, and it stays', async (context) => {
    const { ledger, another } = await open(context);
    const payment = card();
    await ledger.post([pendingOf(payment)]);
    const store = (intentId: string, n: number, version = 1) =>
      [ledger, another][n % 2]!.storeIntent({
        txnId: payment.txnId,
        version,
        ...stripe,
        intentId,
      });
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, n) => store(`pi_${n}`, n)));
    const kept = outcomes.findIndex(({ outcome }) => outcome === 'stored');
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'stored').length, 1);
    const { provider, version } = (await ledger.find(payment.txnId))!;
    assert.equal(provider?.intentId, `pi_${kept}`);
    assert.deepEqual(await store('pi_late', 0, version), { outcome: 'stale' });
  });

  test('no intent is stored on a payment that is final or not there', async (context) => {
    const { ledger } = await open(context);
    const payment = card();
    const request = { txnId: payment.txnId, version: 1, ...stripe, intentId: 'pi_1' };
    assert.deepEqual(await ledger.storeIntent(request), { outcome: 'stale' });
    await ledger.post([pendingOf(payment)]);
    const failure = { code: 'card_declined', message: 'declined' };
    const settlement = { result: { state: 'failed' as const, failure }, settledAt: settledNow };
    await ledger.settle({ txnId: payment.txnId, version: 1, traceparent, ...settlement });
    assert.deepEqual(await ledger.storeIntent({ ...request, version: 2 }), { outcome: 'stale' });
  });
}

function due(open: Open): void {
  test('a pending row is due only once its worker had its time', async (context) => {
    const { ledger, followUps, takeDue, letTimePass } = await open(context);
    const payment = card();
    const waiting = aRefund(payment);
    await ledger.post([pendingOf(payment)]);
    await followUps.post(posting(waiting));
    assert.deepEqual(await takeDue({ limit: 10, leaseMs: 60_000 }), []);
    await letTimePass();
    const taken = await takeDue({ limit: 10, leaseMs: 60_000 });
    assert.deepEqual(taken.map(({ kind }) => kind).sort(), ['follow-up', 'payment']);
    assert.ok(
      taken.every((each) => each.kind !== 'unreadable' && each.traceparent === traceparent),
    );
    assert.deepEqual(await takeDue({ limit: 10, leaseMs: 60_000 }), []);
  });

  for (const state of ['succeeded', 'failed'] as const) {
    test(`a refund that waits is due as soon as its payment ${state}`, async (context) => {
      const { ledger, followUps, takeDue } = await open(context);
      const [payment, another] = [card(), card()];
      await ledger.post([pendingOf(payment), pendingOf(another)]);
      const refund = aRefund(payment);
      for (const each of [refund, aRefund(another)]) await followUps.post(posting(each));
      const failure = { code: 'card_declined', message: 'declined' };
      const result = state === 'failed' ? { state, failure } : { state };
      const settlement = { version: 1, result, settledAt: settledNow, traceparent };
      await ledger.settle({ txnId: payment.txnId, ...settlement });
      const taken = await takeDue({ limit: 10, leaseMs: 60_000 });
      assert.deepEqual(
        taken.map((due) => due.kind === 'follow-up' && due.followUp.txnId),
        [refund.txnId],
      );
    });
  }

  test('a refund that is posted while its payment is settled goes on at once or is due', async (context) => {
    const { ledger, another, followUps, otherFollowUps, takeDue } = await open(context);
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    for (let round = 0; round < 20; round += 1) {
      const payment = aPayment({ amount: 100n });
      const waits = posting(aRefund(payment, { amount: 1n }));
      await ledger.post([pendingOf(payment)]);
      if (round % 2 === 0) await followUps.post(waits);
      const settle = () =>
        another.settle({ txnId: payment.txnId, version: 1, traceparent, ...settlement });
      const [settled, outcome] = await Promise.all([settle(), otherFollowUps.post(waits)]);
      assert.deepEqual(settled, { outcome: 'settled' });
      const due = await takeDue({ limit: 10, leaseMs: 60_000 });
      if (outcome.outcome === 'waiting') {
        const ids = due.map((each) => each.kind === 'follow-up' && each.followUp.txnId);
        assert.deepEqual(ids, [waits.followUp.txnId]);
      } else {
        assert.deepEqual([outcome, due], [{ outcome: 'settled', state: 'succeeded' }, []]);
      }
    }
  });

  test('a refund whose payment is not there is due again soon, and then ever later', async (context) => {
    const { followUps, takeDue } = await open(context);
    const now = Date.now();
    const ages = { fresh: 0, older: 40_000, old: 600_000 };
    for (const ageMs of Object.values(ages)) {
      await followUps.post(posting(aRefund(card(), { acceptedAt: new Date(now - ageMs) })));
    }
    assert.deepEqual(await takeDue({ limit: 10, leaseMs: 60_000 }), []);
    const taken = await eventually(async () => {
      const some = await takeDue({ limit: 10, leaseMs: 60_000 });
      return some.length > 0 && some;
    });
    assert.ok(Date.now() - now < 5_000);
    assert.deepEqual(
      taken.map((due) => due.kind === 'follow-up' && +due.followUp.acceptedAt),
      [now],
    );
  });

  test('of what is due, what has been for the longest is taken first', async (context) => {
    const { ledger, takeDue, letTimePass, writeDetails } = await open(context);
    const payments = Array.from({ length: 5 }, card);
    await ledger.post(payments.map((each) => pendingOf(each)));
    for (const { txnId } of payments) await letTimePass(txnId);
    // Where they lie is now another order.
    for (const { txnId } of payments.toReversed()) await writeDetails(txnId, null);
    for (const { txnId } of payments) {
      const [first] = await takeDue({ limit: 1, leaseMs: 60_000 });
      assert.equal(first?.kind === 'payment' && first.payment.txnId, txnId);
    }
  });

  test('what was taken is due again after a quarter of its age, a minute at most, and never within its lease', async (context) => {
    const { ledger, takeDue, letTimePass, dueInMs } = await open(context);
    for (const [ageMs, leaseMs, least, most] of [
      [40_000, 1, 5_000, 30_000],
      [3_600_000, 1, 30_000, 60_000],
      [3_600_000, 300_000, 200_000, 300_000],
    ] as const) {
      const acceptedAt = new Date(Date.now() - ageMs);
      const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa', acceptedAt });
      await ledger.post([pendingOf(payment)]);
      await letTimePass(payment.txnId);
      assert.equal((await takeDue({ limit: 10, leaseMs })).length, 1);
      const restMs = await dueInMs(payment.txnId);
      assert.ok(least < restMs && restMs <= most, `${restMs} ms`);
    }
  });

  test('several at once take each due row once', async (context) => {
    const { ledger, takeDue, letTimePass } = await open(context);
    await ledger.post(Array.from({ length: 40 }, () => pendingOf(card())));
    await letTimePass();
    const taken = await Promise.all(
      Array.from({ length: 8 }, () => takeDue({ limit: 10, leaseMs: 60_000 })),
    );
    const ids = taken.flat().map((each) => each.kind === 'payment' && each.payment.txnId);
    assert.ok(ids.length <= 40);
    assert.equal(new Set(ids).size, ids.length);
    const rest = await takeDue({ limit: 40, leaseMs: 60_000 });
    assert.equal(ids.length + rest.length, 40);
  });

  test('who held a row before it was taken writes nothing any more', async (context) => {
    const { ledger, takeDue, letTimePass } = await open(context);
    const payment = card();
    const { txnId } = payment;
    await ledger.post([pendingOf(payment)]);
    await letTimePass();
    const [taken] = await takeDue({ limit: 1, leaseMs: 60_000 });
    assert.ok(taken?.kind === 'payment');
    const intent = { txnId, ...stripe, intentId: 'pi_1' };
    assert.deepEqual(await ledger.storeIntent({ ...intent, version: 1 }), { outcome: 'stale' });
    const { version } = taken.payment;
    assert.equal((await ledger.storeIntent({ ...intent, version })).outcome, 'stored');
  });

  test('a row that cannot be read is reported by its id, holds up no other, and is taken again once mended', async (context) => {
    const { ledger, takeDue, letTimePass, writeDetails } = await open(context);
    const payments = Array.from({ length: 3 }, card);
    await ledger.post(payments.map((each) => pendingOf(each)));
    const damaged = payments[1]!.txnId;
    await writeDetails(damaged, '{"description":');
    const look = async () => {
      await letTimePass();
      const due = await takeDue({ limit: 10, leaseMs: 60_000 });
      const of = (kind: string) => due.filter((each) => each.kind === kind);
      return { due, readable: of('payment').length, unreadable: of('unreadable') };
    };
    for (let n = 0; n < 2; n += 1) {
      const { due, readable, unreadable } = await look();
      assert.deepEqual([due.length, readable], [3, 2]);
      assert.ok(unreadable[0]?.kind === 'unreadable' && unreadable[0].txnId === damaged);
    }
    await writeDetails(damaged, '{"description":"mended"}');
    assert.equal((await look()).readable, 3);
  });

  test('what ends in the ledger alone is taken without the cards, longest due first', async (context) => {
    const { ledger, followUps, takeDue, letTimePass } = await open(context);
    const [charged, transfer, unposted] = [card(), aPayment({ amount: 100n }), card()];
    await ledger.post([pendingOf(charged), pendingOf(card()), pendingOf(transfer)]);
    await ledger.storeIntent({ txnId: charged.txnId, version: 1, ...stripe, intentId: 'pi_1' });
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    const end = { txnId: charged.txnId, version: 2, traceparent, chargeId: 'ch_1' };
    await ledger.settle({ ...end, ...settlement });
    // One refund is reserved and the provider's to give; the other waits for its payment.
    assert.equal((await followUps.post(posting(aRefund(charged)))).outcome, 'reserved');
    const waits = aRefund(unposted);
    assert.deepEqual(await followUps.post(posting(waits)), { outcome: 'waiting' });
    await letTimePass();
    const idsOf = (due: Awaited<ReturnType<typeof takeDue>>) =>
      due.map((each) => {
        if (each.kind === 'payment') return each.payment.txnId;
        return each.kind === 'follow-up' && each.followUp.txnId;
      });
    const here = await takeDue({ limit: 10, leaseMs: 60_000, rows: 'settled-here' });
    assert.deepEqual(idsOf(here).sort(), [transfer.txnId, waits.txnId].sort());
    assert.equal((await takeDue({ limit: 10, leaseMs: 60_000 })).length, 2);
  });

  test('what one provider is asked about is taken without another’s, and so is its refund', async (context) => {
    const { ledger, followUps, takeDue, letTimePass } = await open(context);
    const names = ['stripe', 'another'] as const;
    const cards = names.map((name) => ({ name, waits: card(), charged: card() }));
    for (const { name, waits, charged } of cards) {
      const { txnId } = charged;
      await ledger.post([pendingOf(waits, name), pendingOf(charged, name)]);
      assert.equal((await ledger.find(waits.txnId))?.chargedBy, name);
      const intent = { txnId, version: 1, intentId: `pi_${name}` };
      // Another provider's intent is never this payment's.
      const others = names.find((each) => each !== name)!;
      const refused = await ledger.storeIntent({ ...intent, provider: others });
      assert.equal(refused.outcome, 'stale');
      assert.equal((await ledger.storeIntent({ ...intent, provider: name })).outcome, 'stored');
      const end = { txnId, version: 2, traceparent, chargeId: `ch_${name}` };
      const result = { state: 'succeeded' as const };
      await ledger.settle({ ...end, result, settledAt: settledNow });
      assert.equal((await followUps.post(posting(aRefund(charged)))).outcome, 'reserved');
    }
    await letTimePass();
    const asked = { limit: 10, leaseMs: 60_000 };
    assert.deepEqual(await takeDue({ ...asked, rows: 'settled-here' }), []);
    for (const { name, waits, charged } of cards) {
      const due = await takeDue({ ...asked, rows: { provider: name } });
      const about = due.map((each) => {
        if (each.kind === 'payment') return each.payment.txnId;
        return each.kind === 'follow-up' && each.followUp.paymentId;
      });
      assert.deepEqual(about.sort(), [waits.txnId, charged.txnId].sort());
    }
    assert.deepEqual(await takeDue(asked), []);
  });

  test('a refund is not settled as a payment, nor a payment as a refund', async (context) => {
    const { ledger, followUps } = await open(context);
    const payment = card();
    const refund = aRefund(payment);
    await ledger.post([pendingOf(payment)]);
    await followUps.post(posting(refund));
    const failure = { code: 'refused', message: 'refused' };
    const result = { state: 'failed' as const, failure };
    const end = { version: 1, result, settledAt: settledNow, traceparent };
    const stale = { outcome: 'stale' };
    assert.deepEqual(await ledger.settle({ txnId: refund.txnId, ...end }), stale);
    assert.deepEqual(await followUps.settle({ txnId: payment.txnId, ...end }), stale);
    assert.equal((await ledger.find(payment.txnId))?.state, 'pending');
    assert.equal((await followUps.find(refund.txnId))?.state, 'pending');
  });

  test('whoever has an old version of a refund stores no id of the provider on it', async (context) => {
    const { ledger, followUps } = await open(context);
    const payment = card();
    const { txnId } = payment;
    await ledger.post([pendingOf(payment)]);
    await ledger.storeIntent({ txnId, version: 1, ...stripe, intentId: 'pi_1' });
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    await ledger.settle({ txnId, version: 2, traceparent, chargeId: 'ch_1', ...settlement });
    const refund = aRefund(payment);
    const reserved = await followUps.post(posting(refund));
    assert.ok(reserved.outcome === 'reserved');
    const { version } = reserved.followUp;
    const old = { txnId: refund.txnId, version: version - 1, refundId: 're_1' };
    assert.deepEqual(await followUps.storeRefundId(old), { outcome: 'stale' });
    assert.equal((await followUps.find(refund.txnId))?.provider?.refundId, undefined);
  });

  test('what is final is never due', async (context) => {
    const { ledger, takeDue, letTimePass } = await open(context);
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    await ledger.post([{ ...pendingOf(aPayment()), settlement }]);
    await letTimePass();
    assert.deepEqual(await takeDue({ limit: 10, leaseMs: 60_000 }), []);
  });
}
