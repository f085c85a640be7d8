import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import type { Fault } from './faults.ts';
import type { LimitedReason } from './limiters.ts';
import { aSimulator, type ASimulator } from './test/simulator.ts';

// https://docs.stripe.com/rate-limits

const path = '/v1/payment_intents';
const form = 'amount=500&currency=eur&payment_method=pm_card_visa&payment_method_types[]=card';

async function refusedBy({ control }: ASimulator): Promise<[string, number][]> {
  type Answer = { refused: Record<LimitedReason, number> };
  const { refused } = await control<Answer>('GET', '/limits');
  return Object.entries(refused).filter(([, count]) => count > 0);
}

for (const [limits, reason] of [
  [{ perSecond: 3 }, 'global-rate'],
  [{ perSecondOfEach: 3 }, 'endpoint-rate'],
] as const) {
  test(`${reason}: what is above a second's limit is told why, has no effect and keeps nothing under its key`, async (t) => {
    const simulator = await aSimulator(t);
    const { send, control, stripe } = simulator;
    await control('PUT', '/limits', limits);
    const pay = (n: number) => send({ path, form, headers: { 'idempotency-key': `key-${n}` } });
    const answers = await Promise.all(Array.from({ length: 6 }, (_, n) => pay(n)));
    const limited = answers.filter(({ status }) => status === 429);
    // The bucket fills again while the requests come in.
    assert.ok(limited.length >= 2, `${limited.length} of 6 were refused at 3 a second`);
    for (const { headers, json } of limited) {
      assert.equal(json.error.code, 'rate_limit');
      assert.equal(headers.get('stripe-rate-limited-reason'), reason);
      assert.equal(headers.get('retry-after'), null);
    }
    assert.deepEqual(await refusedBy(simulator), [[reason, limited.length]]);
    await control('PUT', '/limits', {});
    const made = (await stripe.paymentIntents.list({ limit: 100 })).data.length;
    assert.equal(made, 6 - limited.length);
    const again = await Promise.all(answers.map((_, n) => pay(n)));
    for (const [n, { headers }] of again.entries()) {
      const replayed = headers.get('idempotent-replayed') === 'true';
      assert.equal(replayed, answers[n]!.status === 200, `key-${n}`);
    }
  });
}

for (const [limits, reason] of [
  [{ atOnce: 1 }, 'global-concurrency'],
  [{ atOnceOfEach: 1 }, 'endpoint-concurrency'],
] as const) {
  test(`${reason}: while as many are under way as may be, another one is refused`, async (t) => {
    const simulator = await aSimulator(t);
    const { send, control } = simulator;
    await control('PUT', '/limits', limits);
    const hold = await control<Fault>('POST', '/faults', { fault: 'hold', count: 1 });
    const held = send({ path, form });
    await eventually(async () => {
      const { faults } = await control<{ faults: Fault[] }>('GET', '/faults');
      return faults.some(({ hits }) => hits === 1);
    });
    const refused = await send({ path, form });
    assert.equal(refused.headers.get('stripe-rate-limited-reason'), reason);
    await control('DELETE', `/faults/${hold.id}`);
    assert.equal((await held).status, 200);
    assert.equal((await send({ path, form })).status, 200);
    assert.deepEqual(await refusedBy(simulator), [[reason, 1]]);
  });
}
