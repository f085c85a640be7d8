import assert from 'node:assert/strict';
import { test } from 'node:test';
import { continueProcess, pauseProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { type Answer, newKey } from './test/partner.ts';
import { home, onTheSystem } from './test/system.ts';

const on = onTheSystem();

const body = { amount: 700, currency: 'CHF', description: 'before the loss' };
const settled = (answer: Answer) => answer.status !== 503 && answer;

async function inLedger(id: string): Promise<boolean> {
  return (await on.look.inLedger([id])).has(id);
}

test('after the claim store lost everything a retry gets the same bytes and another body is refused', async () => {
  const key = newKey('flushed');
  const first = await on.acme.pay(key, body);
  const { id } = JSON.parse(first.body) as { id: string };
  await eventually(() => inLedger(id));
  await on.claims.forget();

  const retry = await eventually(async () => settled(await on.acme.pay(key, body)));
  assert.deepEqual([retry.status, retry.body], [202, first.body]);
  assert.equal(retry.headers['idempotency-replayed'], 'true');
  assert.equal(retry.headers['location'], first.headers['location']);
  const other = await eventually(async () =>
    settled(await on.acme.pay(key, { ...body, amount: 701 })),
  );
  assert.equal(other.status, 422);
  assert.equal((await on.look.counts(id)).ledger, 1);
});

test('after such a loss with the workers paused, answers wait for the ledger and are then right', async () => {
  const workers = on.system.services.filter((each) => each.name.startsWith('ledger-worker'));
  const key = newKey('paused');
  let first: Answer;
  try {
    for (const worker of workers) await pauseProcess({ home, name: worker.name });
    first = await eventually(async () => settled(await on.acme.pay(key, body)));
    assert.equal(first.status, 202, first.body);
    await on.claims.forget();

    for (const attempt of [body, { ...body, amount: 702 }]) {
      const unsure = await on.acme.pay(key, attempt);
      assert.equal(unsure.status, 503, 'nobody can know yet whether this is a retry');
      assert.ok(Number(unsure.headers['retry-after']) >= 1);
      assert.ok(unsure.tookMs < 3_000);
    }
    const { id } = JSON.parse(first.body) as { id: string };
    assert.equal((await on.acme.payment(id)).status, 503);
  } finally {
    for (const worker of workers) await continueProcess({ home, name: worker.name });
  }

  const limits = { withinMs: 60_000, what: 'the worker passing the barrier' };
  const retry = await eventually(async () => settled(await on.acme.pay(key, body)), limits);
  assert.deepEqual([retry.status, retry.body], [202, first.body]);
  const other = await eventually(async () =>
    settled(await on.acme.pay(key, { ...body, amount: 702 })),
  );
  assert.equal(other.status, 422);
  const { id } = JSON.parse(first.body) as { id: string };
  assert.equal((await on.look.counts(id)).ledger, 1);
});
