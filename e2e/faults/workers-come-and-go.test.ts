import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { continueProcess, killProcess, pauseProcess, stopProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { type Admin, Kafka, logLevel } from 'kafkajs';
import { recordRun } from '../test/history.ts';
import { newKey, type Partner } from '../test/partner.ts';
import { acceptedIds, becomeFinalOnce, sendSteadily, stormLoadOf } from '../storms.ts';
import { home, onTheSystem, upSystem } from '../test/system.ts';

// CHURN_TURNS=10 is a long storm.
const turns = Number(process.env['CHURN_TURNS'] ?? 1);
const worker = (n: 1 | 2) => ({ home, name: `ledger-worker-${n}` });
let admin: Admin | undefined;

const on = onTheSystem(async ({ system }) => {
  const brokers = system.kafka.split(',');
  admin = new Kafka({ clientId: 'e2e', brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
});
after(() => admin?.disconnect());

/** Pays until it is accepted: under load a 503 is rightful, and so is the 409 after it. */
async function acceptAtLast(acme: Partner, key: string): Promise<string> {
  const answer = await eventually(async () => {
    const latest = await acme.pay(key, { amount: 5, currency: 'EUR' });
    return latest.status !== 503 && latest.status !== 409 && latest;
  });
  assert.equal(answer.status, 202);
  return (JSON.parse(answer.body) as { id: string }).id;
}

/** Waits until the group has agreed on so many members. */
async function workersInGroup(count: number): Promise<void> {
  const limits = { withinMs: 40_000, what: `a group of ${count}` };
  await eventually(async () => {
    const { groups } = await admin!.describeGroups(['ledger-worker']);
    return groups[0]?.state === 'Stable' && groups[0].members.length === count;
  }, limits);
}

test('workers that come and go under load lose nothing and do nothing twice', async () => {
  await workersInGroup(2);
  const run = await recordRun(on, 'workers-come-and-go');
  const calm = new AbortController();
  const { perSecond, acceptedMin } = stormLoadOf(on.system).steady;
  const storm = sendSteadily(run.acme, { perSecond, stop: calm.signal });
  try {
    for (let stops = 0; stops < turns; stops += 1) {
      run.history.fault('stop', 'ledger-worker-1');
      const { outcome } = await stopProcess(worker(1));
      assert.equal(outcome, 'stopped', 'a worker that is asked to end ends by itself');
      await upSystem();
      run.history.fault('kill', 'ledger-worker-2');
      await killProcess(worker(2));
      await upSystem();
    }
    // Both at once, so that for a while there is none.
    run.history.fault('stop and kill', 'ledger-worker-1 ledger-worker-2');
    await Promise.all([stopProcess(worker(1)), killProcess(worker(2))]);
    await upSystem();
    await workersInGroup(2);
  } finally {
    calm.abort();
  }
  await becomeFinalOnce(on, acceptedIds(await storm, acceptedMin));
  await run.finish({ complete: true });
});

test('a worker that stood still past its session loses and repeats nothing, and joins again', async () => {
  await workersInGroup(2);
  const run = await recordRun(on, 'worker-stands-still');
  const calm = new AbortController();
  const { perSecond, acceptedMin } = stormLoadOf(on.system).steady;
  const load = sendSteadily(run.acme, { perSecond, stop: calm.signal });
  try {
    run.history.fault('stand still', 'ledger-worker-1');
    await pauseProcess(worker(1));
    await workersInGroup(1);
    // The other one has all partitions: a payment of any of them is posted.
    const ids = await Promise.all(
      Array.from({ length: 48 }, () => acceptAtLast(run.acme, newKey('still'))),
    );
    await eventually(async () => (await on.look.inLedger(ids)).size === ids.length, {
      withinMs: 30_000,
      what: 'payments posted by the other worker',
    });
  } finally {
    await continueProcess(worker(1));
    await workersInGroup(2).finally(() => calm.abort());
  }
  await becomeFinalOnce(on, acceptedIds(await load, acceptedMin));
  await run.finish({ complete: true });
});
