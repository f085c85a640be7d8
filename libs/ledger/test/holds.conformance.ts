import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aPayment } from '@triplock/testing';
import { clocksDifferMs } from '../ledger.ts';
import { aChargedCard, type ChargingUnderTest, pendingOf, traceparent } from './under-test.ts';

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];

/** What a ledger promises of money that is held: when that is noted, and when it is looked at. */
export function holding(open: (context: TestContext) => Promise<ChargingUnderTest>): void {
  test('a hold that stands is noted and told within its customer’s time alone, one that ended after it too', async (context) => {
    const store = await open(context);
    const { ledger, another, events } = store;
    const held = async (intentId: string, withinMs: number) => {
      const { txnId } = await aChargedCard(store, intentId);
      await ledger.awaitCustomer({ txnId, version: 2, withinMs, traceparent });
      return { txnId, version: 3, traceparent };
    };
    const [acted, late] = [await held('pi_1', hourMs), await held('pi_2', 0)];
    const stored = { outcome: 'stored', version: 4 };
    assert.deepEqual(await ledger.authorize({ ...acted, hold: 'stands' }), stored);
    const noted = { ...acted, version: 4, hold: 'stands' } as const;
    assert.deepEqual(await another.authorize(noted), { outcome: 'stale' });
    for (const each of [ledger, another]) {
      assert.deepEqual(await each.authorize({ ...late, hold: 'stands' }), { outcome: 'over' });
    }
    const stale = { ...late, version: 2, hold: 'stands' } as const;
    assert.deepEqual(await ledger.authorize(stale), { outcome: 'stale' });
    const told = async () =>
      (await events()).filter(({ eventType }) => eventType === 'payment.authorized').length;
    assert.equal(await told(), 1);
    assert.deepEqual(await another.authorize({ ...late, hold: 'ended' }), stored);
    assert.equal(await told(), 2);
  });

  test('a hold that began within its customer’s time stands, however late it is seen', async (context) => {
    const store = await open(context);
    const { ledger, another } = store;
    const { txnId } = await aChargedCard(store, 'pi_1');
    await ledger.awaitCustomer({ txnId, version: 2, withinMs: 0, traceparent });
    const end = +(await ledger.find(txnId))!.customer!.expiresAt;
    const seen = { txnId, version: 3, traceparent, hold: 'stands' } as const;
    // As far from the end as the two clocks may be apart.
    for (const heldSince of [new Date(end), new Date(end - clocksDifferMs)]) {
      assert.deepEqual(await another.authorize({ ...seen, heldSince }), { outcome: 'over' });
    }
    const inTime = { ...seen, heldSince: new Date(end - clocksDifferMs - 1) };
    assert.deepEqual(await another.authorize(inTime), { outcome: 'stored', version: 4 });
    assert.notEqual((await ledger.find(txnId))?.authorizedAt, undefined);
  });

  test('a hold is looked at after as long as it lasts, an hour to a day, and soon after its end', async (context) => {
    const { ledger, takeDue, letTimePass, dueInMs } = await open(context);
    const jittered = (restMs: number) => [0.9 * restMs - minuteMs, 1.1 * restMs] as const;
    for (const [endsInMs, [least, most]] of [
      [undefined, jittered(hourMs)],
      [7 * dayMs, jittered(hourMs)],
      [10 * minuteMs, [24 * minuteMs, 40 * minuteMs]],
      [-10 * minuteMs, jittered(hourMs)],
      [-5 * hourMs, jittered(5 * hourMs)],
      [-9 * dayMs, jittered(dayMs)],
    ] as const) {
      const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
      const { txnId } = payment;
      await ledger.post([pendingOf(payment)]);
      const heldUntil = endsInMs === undefined ? undefined : new Date(Date.now() + endsInMs);
      await ledger.authorize({ txnId, version: 1, traceparent, hold: 'stands', heldUntil });
      await letTimePass(txnId);
      assert.equal((await takeDue({ limit: 10, leaseMs: 1 })).length, 1);
      const restMs = await dueInMs(txnId);
      assert.ok(least < restMs && restMs <= most, `${endsInMs}: ${restMs} ms`);
    }
  });
}
