import assert from 'node:assert/strict';
import { test } from 'node:test';
import { continueProcess, pauseProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { askAgain, sendMixed } from './mixed-load.ts';
import { stormLoadOf, tookEffectOnce } from './storms.ts';
import { recordRun } from './test/history.ts';
import { type Answer, insist, newKey } from './test/partner.ts';
import { allPosted, home, onTheSystem } from './test/system.ts';

const on = onTheSystem();

const body = { amount: 700, currency: 'CHF', description: 'before the loss' };

async function inLedger(id: string): Promise<boolean> {
  return (await on.look.inLedger([id])).has(id);
}

test('after the claim store lost everything a retry gets the same bytes and another body is refused', async () => {
  const key = newKey('flushed');
  const first = await insist(() => on.acme.pay(key, body));
  const { id } = JSON.parse(first.body) as { id: string };
  await eventually(() => inLedger(id));
  await on.claims.forget();

  const retry = await insist(() => on.acme.pay(key, body));
  assert.deepEqual([retry.status, retry.body], [202, first.body]);
  assert.equal(retry.headers['idempotency-replayed'], 'true');
  assert.equal(retry.headers['location'], first.headers['location']);
  const other = await insist(() => on.acme.pay(key, { ...body, amount: 701 }));
  assert.equal(other.status, 422);
  assert.equal((await on.look.counts(id)).ledger, 1);
});

test('after such a loss with the workers paused, answers wait for the ledger and are then right', async () => {
  const workers = on.system.services.filter((each) => each.name.startsWith('ledger-worker'));
  const key = newKey('paused');
  let first: Answer;
  // The loss above has the gateways wait for what was accepted before it, in the key's partition.
  await allPosted(on.system);
  try {
    for (const worker of workers) await pauseProcess({ home, name: worker.name });
    first = await insist(() => on.acme.pay(key, body));
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

  const retry = await insist(() => on.acme.pay(key, body));
  assert.deepEqual([retry.status, retry.body], [202, first.body]);
  const other = await insist(() => on.acme.pay(key, { ...body, amount: 702 }));
  assert.equal(other.status, 422);
  const { id } = JSON.parse(first.body) as { id: string };
  assert.equal((await on.look.counts(id)).ledger, 1);
});

test('while the claim store loses everything again and again under load, no key takes effect twice and no answer changes', async (context) => {
  const { perSecond, acceptedMin, losses } = stormLoadOf(on.system).mixed;
  const recorded = await recordRun(on, 'claims-forgotten');
  const run = newKey('forgetting');
  const load = sendMixed([recorded.acme, recorded.globex], { perSecond, seed: 1, run });
  let lost = 0;
  try {
    for (let loss = 0; loss < losses; loss += 1) {
      await load.accepts(10);
      // Those may have been answered after the loss and claimed before it.
      await eventually(async () => (await claimsOf(load.accepted.slice(-10))) > 0, {
        withinMs: 120_000,
        what: 'a claim that can be lost',
      });
      recorded.history.fault('claims forgotten');
      lost += (await on.claims.forget()).keys;
    }
    await load.accepts(acceptedMin);
  } finally {
    await load.stop();
  }
  const { unknown } = await askAgain(load, 120_000);
  const expected = { run, withinMs: 120_000, races: 'end in a key conflict' } as const;
  const conflicts = await tookEffectOnce(on, load.attempts, expected);
  await recorded.finish({ complete: true });
  context.diagnostic(`${losses} losses, ${lost} claims and markers; ${unknown} keys asked again`);
  context.diagnostic(`${conflicts} bodies that raced with a loss ended in a key conflict`);
});

async function claimsOf(ids: readonly string[]): Promise<number> {
  const claims = await Promise.all(ids.map((id) => on.claims.look(id)));
  return claims.filter((claim) => claim !== undefined).length;
}
