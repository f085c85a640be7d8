import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  askPubSub,
  bringUp,
  continueProcess,
  type Endpoints,
  pauseProcess,
  pubsubName,
  runOf,
} from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { askAgain, type MixedLoad, sendMixed } from '../mixed-load.ts';
import { earlierSettings, launcherIn } from '../prove/run.ts';
import { stormLoadOf, tookEffectOnce } from '../storms.ts';
import { type RecordedRun, recordRun } from '../test/history.ts';
import { insist, newKey, type Partner } from '../test/partner.ts';
import { command, home, onTheSystem, readLeases } from '../test/system.ts';

// STORM_SECONDS=15, as `npm run prove -- upgrade --short` has it, fills a smaller outbox and leaves
// out the way back.
const stormSeconds = Number(process.env['STORM_SECONDS'] ?? 60);
const isShort = stormSeconds < 60;
const seed = Number(process.env['STORM_SEED'] ?? Date.now() % 1_000_000);
const backlog = stormSeconds * 40;
const earlier = process.env['UPGRADE_FROM'] ?? '';
if (earlier === '') throw new Error('npm run prove -- upgrade runs it: it has a system to upgrade');

// The partners' server and the provider are nobody's to upgrade here.
const counterparts = ['catcher', 'stripe-simulator'];
const readers = ['auditor', 'settlement-feed', 'partner-notifier'];
const dispatchers = ['outbox-dispatcher-1', 'outbox-dispatcher-2'] as const;

const on = onTheSystem(undefined, async () => {
  return JSON.parse(await readFile(join(home, 'endpoints.json'), 'utf8')) as Endpoints;
});

/** What all but these services, or processes, are called. */
function allBut(wanted: readonly string[]): string[] {
  const others = on.system.services.filter(
    ({ name, service }) => !wanted.includes(name) && !wanted.includes(service),
  );
  return [...counterparts, ...others.map(({ name }) => name)];
}

type Running = { recorded: RecordedRun; load: MixedLoad; acceptedMin: number };

/** Has these run this version, one process after the other, and sees payments go on meanwhile. */
async function replace(
  { recorded, load, acceptedMin }: Running,
  wanted: readonly string[],
): Promise<string> {
  const [began, before] = [performance.now(), load.accepted.length];
  recorded.history.fault('replace', wanted.join(' '));
  await bringUp({ home, except: allBut(wanted) });
  const seconds = Math.round((performance.now() - began) / 1_000);
  const accepted = load.accepted.length - before;
  assert.ok(accepted > 0, `nothing was accepted while ${wanted.join(' ')} was replaced`);
  await load.accepts(acceptedMin);
  return `${wanted.join(' ')} in ${seconds} s, ${accepted} accepted meanwhile`;
}

/** Has a service run the earlier version again, in all its replicas, and then this one. */
async function backAndForth(running: Running, service: string): Promise<void> {
  running.recorded.history.fault('roll back', service);
  const before = await runs();
  const { bringUp: bringUpEarlier } = await launcherIn(earlier);
  const others = new Set(on.system.services.map((each) => each.service));
  others.delete(service);
  const except = [...counterparts, ...others];
  await bringUpEarlier({ home, settings: earlierSettings, except });
  const after = await runs();
  const changed = [...after].filter(([name, run]) => run !== before.get(name));
  assert.deepEqual(
    changed.map(([name]) => name),
    [1, 2].map((n) => `${service}-${n}`),
  );
  await running.load.accepts(running.acceptedMin);
  await replace(running, [service]);
}

/** One run of each process. */
async function runs(): Promise<Map<string, string | undefined>> {
  const names = on.system.services.map(({ name }) => name).sort();
  const all = names.map(async (name) => [name, await runOf({ home, name })] as const);
  return new Map(await Promise.all(all));
}

async function waiting(): Promise<number> {
  const sql = `SELECT count(*)::int AS n FROM ledger.outbox WHERE state = 'pending'`;
  const [row] = await on.look.ledger.query<{ n: number }>(sql);
  return row!.n;
}

/** How many events each dispatcher published under the leases that it has now. */
async function publishedByEach(): Promise<Map<string, number>> {
  const byOwner = Map.groupBy(await readLeases(on), ({ owner }) => owner);
  const sql = `
    SELECT count(*)::int AS n FROM ledger.outbox
    JOIN unnest($1::smallint[], $2::bigint[]) AS held (bucket, epoch) USING (bucket)
    WHERE published_epoch = held.epoch`;
  const counts = [...byOwner].map(async ([owner, held]) => {
    const leases = [held.map(({ bucket }) => bucket), held.map(({ epoch }) => epoch)];
    const [row] = await on.look.ledger.query<{ n: number }>(sql, leases);
    return [owner, row!.n] as const;
  });
  return new Map(await Promise.all(counts));
}

/** Payments that the earlier version takes to their end, to be refunded by this one's events. */
async function payAhead(from: Partner): Promise<string[]> {
  const methods = [{}, {}, { payment_method: 'pm_card_visa' }];
  const paying = Array.from({ length: 30 }, async (_, n) => {
    const body = { amount: 500 + n, currency: 'EUR', ...methods[n % methods.length] };
    const key = newKey('ahead');
    const accepted = await insist(() => from.pay(key, body));
    const { id } = JSON.parse(accepted.body) as { id: string };
    const isPaid = async () => (await from.payment(id, 10)).body.includes('"status":"succeeded"');
    await eventually(isPaid, { withinMs: 60_000, what: `an end of ${id}` });
    return id;
  });
  const ids = await Promise.all(paying);
  // A final payment's event may still wait, and would then leave under this version's key.
  const sql = `SELECT FROM ledger.outbox WHERE txn_id = ANY($1::uuid[]) AND state = 'published'`;
  const arePublished = async () => (await on.look.ledger.query(sql, [ids])).length >= ids.length;
  await eventually(arePublished, {
    withinMs: 60_000,
    what: 'their events from the earlier version',
  });
  return ids;
}

async function refundAll(from: Partner, ids: readonly string[]): Promise<void> {
  const refunds = ids.map(async (id) => {
    const key = newKey('ahead');
    const { status } = await insist(() => from.refund(id, key, { amount: 100 }));
    assert.equal(status, 202);
  });
  await Promise.all(refunds);
}

const watcher = 'subscriptions/upgrade-watched';

/** Has everything that is published from now on kept for a look at its ordering keys. */
async function watchKeys(): Promise<void> {
  const topic = pubsubName('topics/payment-events.v1');
  const body = { topic, ackDeadlineSeconds: 600 };
  const answer = await askPubSub(on.system.pubsub, { method: 'PUT', name: watcher, body });
  assert.ok(answer.ok, answer.text);
}

type Pulled = {
  receivedMessages?: { message: { orderingKey: string; attributes: { payment_id: string } } }[];
};

/** The ordering keys that each payment's events left under. */
async function keysOfPayments(): Promise<Map<string, Set<string>>> {
  const keys = new Map<string, Set<string>>();
  const body = { maxMessages: 1_000, returnImmediately: true };
  for (;;) {
    const request = { method: 'POST', name: `${watcher}:pull`, body } as const;
    const { text } = await askPubSub(on.system.pubsub, request);
    const { receivedMessages = [] } = JSON.parse(text) as Pulled;
    if (receivedMessages.length === 0) break;
    for (const { message } of receivedMessages) {
      const { payment_id: id } = message.attributes;
      keys.set(id, (keys.get(id) ?? new Set()).add(message.orderingKey));
    }
  }
  await askPubSub(on.system.pubsub, { method: 'DELETE', name: watcher });
  return keys;
}

test(`a system of an earlier version is replaced by this one under load (seed ${seed}), its outbox full and its ordering keys others: every 202 becomes final once, in order, and is heard of`, async (context) => {
  const { perSecond, acceptedMin } = stormLoadOf(on.system).mixed;
  const within = (what: string) => ({ withinMs: 180_000, what });
  const recorded = await recordRun(on, 'upgrade');
  const run = newKey('upgrade');
  await watchKeys();
  const before = await runs();
  const load = sendMixed([recorded.acme, recorded.globex], { perSecond, seed, run });
  const running = { recorded, load, acceptedMin };
  const replaced: string[] = [];
  try {
    await load.accepts(acceptedMin);
    const ahead = await payAhead(recorded.acme);
    recorded.history.fault('stand still', dispatchers.join(' '));
    for (const name of dispatchers) await pauseProcess({ home, name });
    await refundAll(recorded.acme, ahead);
    replaced.push(await replace(running, readers));
    await eventually(async () => (await waiting()) >= backlog, within('a full outbox'));
    context.diagnostic(`${await waiting()} events wait in the outbox for the new dispatchers`);

    // This version publishes what waits; then the earlier one beside it, under other keys.
    replaced.push(await replace(running, [dispatchers[0]]));
    await eventually(async () => (await waiting()) < perSecond * 2, within('an empty outbox'));
    await continueProcess({ home, name: dispatchers[1] });
    const both = await eventually(async () => {
      const counts = await publishedByEach();
      return dispatchers.every((name) => (counts.get(name) ?? 0) >= acceptedMin / 2) && counts;
    }, within('events of both versions'));
    context.diagnostic(`beside each other they published ${JSON.stringify([...both])}`);
    replaced.push(await replace(running, [dispatchers[1]]));
    replaced.push(await replace(running, ['ledger-worker']));
    replaced.push(await replace(running, ['ingest-gateway']));
    const after = await runs();
    for (const [name, was] of before) assert.notEqual(after.get(name), was, `${name} is the old`);
    await bringUp({ home, except: counterparts });
    assert.deepEqual(await runs(), after, 'all of it is this version');
    for (const service of isShort ? [] : ['outbox-dispatcher', 'ledger-worker'])
      await backAndForth(running, service);
  } finally {
    await load.stop();
  }
  for (const line of replaced) context.diagnostic(line);
  context.diagnostic(describeAnswers(load));
  const { unknown, replayed } = await askAgain(load, 120_000);
  context.diagnostic(`${unknown} keys were asked again, ${replayed} had taken effect`);
  await tookEffectOnce(on, load.attempts, { run, withinMs: 180_000, races: 'none' });
  const history = await recorded.finish({ complete: true });
  const audit = await command('audit', '--full', '--wait', '120');
  assert.equal(audit.code, 0, audit.stdout + audit.stderr);
  const keys = await keysOfPayments();
  const moved = [...keys.values()].filter((some) => some.size > 1).length;
  assert.ok(moved > 0, 'no payment had events under an earlier and a new ordering key');
  context.diagnostic(`${moved} of ${keys.size} payments had events under two keys: ${history}`);
});

/** What was answered how often, and for how long nothing was accepted. */
function describeAnswers({ attempts }: MixedLoad): string {
  const became = attempts.map(({ answer }) => (answer ? String(answer.status) : 'unanswered'));
  const counts = [...Map.groupBy(became, (each) => each)].map(([is, all]) => `${is} ${all.length}`);
  const times = attempts
    .filter(({ answer }) => answer?.status === 202)
    .map(({ sentAt, answer }) => sentAt.getTime() + answer!.tookMs)
    .sort((one, other) => one - other);
  const gaps = times.slice(1).map((at, n) => at - times[n]!);
  return `${counts.sort().join(', ')}; ${Math.round(Math.max(...gaps))} ms without a 202 at most`;
}
