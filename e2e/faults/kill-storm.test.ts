import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askAgain, type Attempt, sendMixed } from '../mixed-load.ts';
import { type AskedKey, fedTwice, judgeStorm } from '../storm/checker.ts';
import { followArrivals, followFeed, gatherEvidence } from '../storm/evidence.ts';
import { killAtOnce, killEach, stormLoadOf, tookEffectOnce } from '../storms.ts';
import { recordRun } from '../test/history.ts';
import { newKey } from '../test/partner.ts';
import { onTheSystem } from '../test/system.ts';

// STORM_SECONDS=15, as `npm run prove -- faults --short` has it, kills several processes at once,
// so that each is still hit.
const stormMs = Number(process.env['STORM_SECONDS'] ?? 60) * 1_000;
const seed = Number(process.env['STORM_SEED'] ?? Date.now() % 1_000_000);
const everyMs = 3_000;

// Killed when everything is; what Pub/Sub's emulator forgets is sent again when it comes up. Those
// of Spanner and DynamoDB are left out, because they are the memory of a ledger and of claims, and
// so is the partners' own server, which the history is read from.
const parts = ['redis', 'kafka', 'postgres', 'pubsub', 'stripe-simulator'].map((name) => ({
  name,
  service: name,
}));

const on = onTheSystem();

test(`under a storm of kills (seed ${seed}) that hits every process, and then all of them with what they stand on, every request takes effect once or its refusal holds`, async (context) => {
  const { perSecond, acceptedMin } = stormLoadOf(on.system).mixed;
  const victims = on.system.services;
  const recorded = await recordRun(on, 'kill-storm');
  const onKill = (names: readonly string[]) => recorded.history.fault('kill', names.join(' '));
  const run = newKey('storm');
  const webhooks = followArrivals(context, on.system.catcher);
  const feeds = [on.acme, on.globex].map((each) => followFeed(context, each));
  const load = sendMixed([recorded.acme, recorded.globex], { perSecond, seed, run });
  const hits: string[] = [];
  try {
    await load.accepts(acceptedMin);
    const endsAt = performance.now() + stormMs;
    const together = Math.ceil((victims.length * everyMs) / stormMs);
    const enough = load.accepted.length + acceptedMin;
    const goesOn = () => performance.now() < endsAt || load.accepted.length < enough;
    hits.push(...(await killEach(victims, { seed, everyMs, together, goesOn, onKill })));
    const all = [...victims, ...parts];
    onKill(all.map(({ name }) => name));
    await killAtOnce(all);
    await load.accepts(acceptedMin);
  } finally {
    await load.stop();
  }
  for (const { name } of victims) assert.ok(hits.includes(name), `${name} was not killed`);
  context.diagnostic(`seed ${seed}: ${hits.length} kills and all at once: ${counted(hits)}`);
  context.diagnostic(counted(load.attempts.map(becameOf)));
  const calmAt = performance.now();
  const { unknown, replayed } = await askAgain(load, 120_000);
  context.diagnostic(`${unknown} keys were asked again, ${replayed} had taken effect`);
  await tookEffectOnce(on, load.attempts, { run, withinMs: 120_000, races: 'none' });
  const history = await recorded.finish({ complete: true });
  await webhooks.stop();
  for (const feed of feeds) await feed.stop();
  const fed = feeds.flatMap(({ seen }) => seen);
  const seen = { run, asked: askedOf(load.attempts), webhooks: webhooks.seen, fed };
  assert.deepEqual(fedTwice(fed), []);
  assert.deepEqual(judgeStorm(await gatherEvidence(on, seen)), []);
  const seconds = Math.round((performance.now() - calmAt) / 1_000);
  context.diagnostic(`all was final, once and audited ${seconds} s after the storm: ${history}`);
});

/** The attempts by what was asked for under one key, with every answer to it. */
function askedOf(attempts: readonly Attempt[]): AskedKey[] {
  const keys = Map.groupBy(attempts, ({ from, kind, key }) => `${from.id} ${kind} ${key}`);
  return [...keys.values()].map((of) => {
    const { from, kind, key, paymentId: payment } = of[0]!;
    const answers = of.flatMap(({ answer }) =>
      answer ? [{ status: answer.status, text: answer.body }] : [],
    );
    return { partner: from.id, kind, key, ...(payment === undefined ? {} : { payment }), answers };
  });
}

const becameOf = ({ answer }: Attempt) => (answer ? `${answer.status}` : 'unanswered');

/** How often each is there. */
function counted(words: readonly string[]): string {
  const counts = Map.groupBy(words, (word) => word);
  return [...counts]
    .map(([word, all]) => `${word} ${all.length}`)
    .sort()
    .join(', ');
}
