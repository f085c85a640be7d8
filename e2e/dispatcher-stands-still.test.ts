import assert from 'node:assert/strict';
import { test } from 'node:test';
import { continueProcess, pauseProcess, readLogs } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import type { LedgerLease } from '@triplock/ledger';
import { home, onTheSystem, readLeases } from './test/system.ts';
import { recordRun } from './test/history.ts';
import { acceptedIds, becomeFinalOnce, sendSteadily, stormLoadOf } from './storms.ts';

const on = onTheSystem();
const owner = { home, name: 'outbox-dispatcher-1' };

/** Live leases by the dispatcher that has them. */
async function leases(): Promise<Map<string, LedgerLease[]>> {
  return Map.groupBy(await readLeases(on), (lease) => lease.owner);
}

async function bothHaveHalf(): Promise<boolean> {
  const held = [...(await leases()).values()].map((some) => some.length);
  return held.length === 2 && held.every((count) => count === 32);
}

async function crashPoints(dispatcher: string, query = '', method = 'GET') {
  const { health } = on.system.services.find(({ name }) => name === dispatcher)!;
  const headers = { authorization: `Bearer ${on.system.controlToken}` };
  const answer = await fetch(new URL(`/crash-points${query}`, health), { method, headers });
  assert.ok(answer.ok, `${dispatcher} has no crash points`);
  return (await answer.json()) as { hits: Record<string, number> };
}

const point = '?name=dispatcher.published';

/**
 * Has a dispatcher rest, in the buckets of a pass, between what it published and the marks of it.
 */
async function restBeforeTheMark(dispatcher: string): Promise<{ begun(): Promise<boolean> }> {
  const hits = async () => (await crashPoints(dispatcher)).hits['dispatcher.published'] ?? 0;
  const before = await hits();
  await crashPoints(dispatcher, `${point}&action=pause&pauseMs=3000&times=64`, 'POST');
  return { begun: async () => (await hits()) > before };
}

const disarm = (dispatcher: string) => crashPoints(dispatcher, `${point}&action=off`, 'POST');

const leaseMs = 6_000;
const within = (withinMs: number, what: string) => ({ withinMs, what });

test('a dispatcher that stood still past its lease marks nothing when it goes on, and no event is lost or applied twice', async () => {
  await eventually(bothHaveHalf, within(30_000, 'half of the buckets for each'));
  const before = await refusedMarks();
  const markWasRefused = async () => (await refusedMarks()) > before;
  const halves = await leases();
  const run = await recordRun(on, 'dispatcher-stands-still');
  const calm = new AbortController();
  const { perSecond } = stormLoadOf(on.system).steady;
  const load = sendSteadily(run.acme, { perSecond, stop: calm.signal });
  let lost: LedgerLease[] = [];
  let takenOver: { at: Date } | undefined;
  try {
    const resting = await restBeforeTheMark(owner.name);
    await eventually(resting.begun);
    run.history.fault('stand still', owner.name);
    await pauseProcess(owner);
    const stoodStillAt = performance.now();
    const successor = await restBeforeTheMark('outbox-dispatcher-2');
    // Whatever each calls itself, which in a container is the container's name for itself.
    const [other, all] = await eventually(
      async () => [...(await leases())].find(([, held]) => held.length === 64),
      within(15_000, 'all buckets for the other dispatcher'),
    );
    lost = [...halves].find(([name]) => name !== other)![1];
    const tookMs = performance.now() - stoodStillAt;
    assert.ok(tookMs < leaseMs + 4_000, `the takeover took ${Math.round(tookMs)} ms`);
    const epochs = new Map(all.map((each) => [each.bucket, each]));
    for (const { bucket, epoch } of lost) assert.ok(epochs.get(bucket)!.epoch > epoch);

    // What was published twice waits for the other's marks, so that nothing but the epoch refuses
    // the late ones.
    await eventually(successor.begun, within(30_000, 'the other dispatcher to publish'));
    [takenOver] = await on.look.database.query<{ at: Date }>('SELECT now() AS at');
  } finally {
    await continueProcess(owner);
    calm.abort();
    await Promise.all([disarm(owner.name), disarm('outbox-dispatcher-2')]);
  }
  await eventually(markWasRefused, within(20_000, 'the late mark'));
  const ids = acceptedIds(await load, perSecond);
  await eventually(() => published(ids), within(60_000, 'every event'));
  const stale = await on.look.ledger.query(
    `SELECT event_id FROM ledger.outbox
     JOIN unnest($1::smallint[], $2::bigint[]) AS lost (bucket, epoch) USING (bucket)
     WHERE published_epoch = lost.epoch AND published_at >= $3`,
    [lost.map(({ bucket }) => bucket), lost.map(({ epoch }) => epoch), takenOver!.at],
  );
  assert.deepEqual(stale, []);
  // The auditor counts copies as its own subscription brings them, later than the ledger's marks.
  await eventually(() => publishedTwice(ids), within(60_000, 'the auditor to see an event twice'));
  await becomeFinalOnce(on, ids);
  for (const id of ids.slice(-20)) {
    const webhooks = await on.look.webhooks(id);
    assert.deepEqual(
      webhooks.map(({ attempts }) => attempts),
      [1],
    );
  }
  await run.finish({ complete: true });
  await eventually(bothHaveHalf, within(30_000, 'half of the buckets for each again'));
});

async function published(ids: readonly string[]): Promise<boolean> {
  const rows = await on.look.ledger.query(
    `SELECT FROM ledger.outbox WHERE txn_id = ANY($1::uuid[]) AND state = 'published'`,
    [ids],
  );
  return rows.length === ids.length;
}

/** How often the dispatcher has logged that a mark met another epoch. */
async function refusedMarks(): Promise<number> {
  const log = await readLogs(owner);
  return log.split('the lease was lost before the mark').length - 1;
}

async function publishedTwice(ids: readonly string[]): Promise<boolean> {
  const twice = await on.look.database.query(
    `SELECT FROM auditor.published WHERE txn_id = ANY($1::uuid[]) AND copies > 1 LIMIT 1`,
    [ids],
  );
  return twice.length > 0;
}
