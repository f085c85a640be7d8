import assert from 'node:assert/strict';
import { test } from 'node:test';
import { continueProcess, pauseProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { payInTurns } from './mixed-load.ts';
import { stormLoadOf } from './storms.ts';
import { recordRun } from './test/history.ts';
import { home, onTheSystem } from './test/system.ts';

const on = onTheSystem();

test('Kafka stopped under load: 503 within 3 s, and every 202 is in the ledger once', async () => {
  const still = stormLoadOf(on.system).still;
  const { acceptedMin, refusedMin } = still;
  const run = await recordRun(on, 'kafka-stands-still');
  const { sent, stop } = payInTurns(run.acme, still);
  const count = (status: number) => sent.filter(({ answer }) => answer.status === status).length;
  const accepted = (atLeast: number) => async () => count(202) >= atLeast;
  try {
    await eventually(accepted(acceptedMin), {
      withinMs: 30_000,
      what: 'payments before the fault',
    });
    run.history.fault('stand still', 'kafka');
    await pauseProcess({ home, name: 'kafka' });
    await eventually(async () => count(503) >= refusedMin, {
      withinMs: 30_000,
      what: '503s while Kafka stands still',
    });
  } finally {
    await continueProcess({ home, name: 'kafka' });
  }
  const before = count(202);
  await eventually(accepted(before + acceptedMin), {
    withinMs: 60_000,
    what: 'payments after the fault',
  });
  await stop();

  const statuses = new Set(sent.map(({ answer }) => answer.status));
  assert.deepEqual([...statuses].sort(), [202, 503]);
  const slow = sent.filter(({ answer }) => answer.status === 503 && answer.tookMs > 3_000);
  assert.deepEqual(
    slow.map(({ answer }) => Math.round(answer.tookMs)),
    [],
  );

  // An unknown produce is settled by its retry: the same bytes as if it had been the first.
  const unknown = sent.filter(({ answer }) => answer.status === 503).slice(0, 20);
  for (const { key, body } of unknown) {
    const retry = await eventually(async () => {
      const answer = await run.acme.pay(key, body);
      return answer.status === 202 && answer;
    });
    sent.push({ key, body, answer: retry });
  }
  const ids = sent
    .filter(({ answer }) => answer.status === 202)
    .map(({ answer }) => (JSON.parse(answer.body) as { id: string }).id);
  await eventually(async () => (await on.look.inLedger(ids)).size === new Set(ids).size, {
    withinMs: 60_000,
    what: `all ${ids.length} accepted payments in the ledger`,
  });
  const twice = await on.look.ledger.query(
    'SELECT txn_id FROM ledger.entries WHERE txn_id = ANY($1::uuid[]) GROUP BY txn_id HAVING count(*) > 1',
    [ids],
  );
  assert.deepEqual(twice, []);
  await run.finish({ complete: true });
});
