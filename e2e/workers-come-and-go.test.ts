import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { continueProcess, killProcess, pauseProcess, stopProcess } from '@triplock/infra';
import { eventually } from '@triplock/testing';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { acceptedIds, becomeFinalOnce } from './accepted.ts';
import { sendSteadily } from './kill-storm.ts';
import { onTheSystem } from './stage.ts';
import { home, restore } from './system.ts';

// CHURN_TURNS=10 is a long storm; less of it keeps `npm test` short.
const turns = Number(process.env['CHURN_TURNS'] ?? 1);
const worker = (n: 1 | 2) => ({ home, name: `ledger-worker-${n}` });
let admin: Admin;

const on = onTheSystem(async ({ system }) => {
  const brokers = system.kafka.split(',');
  admin = new Kafka({ clientId: 'e2e', brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
});
after(() => admin.disconnect());

/** Waits until the group has agreed on so many members. */
async function workersInGroup(count: number): Promise<void> {
  const limits = { withinMs: 40_000, what: `a group of ${count}` };
  await eventually(async () => {
    const { groups } = await admin.describeGroups(['ledger-worker']);
    return groups[0]?.state === 'Stable' && groups[0].members.length === count;
  }, limits);
}

test('workers that come and go under load lose nothing and do nothing twice', async () => {
  await workersInGroup(2);
  const calm = new AbortController();
  const storm = sendSteadily(on.acme, { perSecond: 60, stop: calm.signal });
  try {
    for (let turn = 0; turn < turns; turn += 1) {
      const { outcome } = await stopProcess(worker(1));
      assert.equal(outcome, 'stopped', 'a worker that is asked to end ends by itself');
      await restore();
      await killProcess(worker(2));
      await restore();
    }
    // Both at once, so that for a while there is none.
    await Promise.all([stopProcess(worker(1)), killProcess(worker(2))]);
    await restore();
    await workersInGroup(2);
  } finally {
    calm.abort();
  }
  await becomeFinalOnce(on, acceptedIds(await storm, 200));
});

test('a worker that stood still past its session loses and repeats nothing, and joins again', async () => {
  await workersInGroup(2);
  const calm = new AbortController();
  const load = sendSteadily(on.acme, { perSecond: 60, stop: calm.signal });
  try {
    pauseProcess(worker(1));
    await workersInGroup(1);
    // The other one has all partitions: a payment of any of them is posted.
    const answers = await Promise.all(
      Array.from({ length: 48 }, (_, n) =>
        on.acme.pay(`still-${process.pid}-${n}`, { amount: 5, currency: 'EUR' }),
      ),
    );
    const ids = answers.map(({ body }) => (JSON.parse(body) as { id: string }).id);
    await eventually(async () => (await on.look.inLedger(ids)).size === ids.length, {
      withinMs: 30_000,
      what: 'payments posted by the other worker',
    });
  } finally {
    continueProcess(worker(1));
    await workersInGroup(2).finally(() => calm.abort());
  }
  await becomeFinalOnce(on, acceptedIds(await load, 200));
});
