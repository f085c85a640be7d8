import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { bringUp } from '@triplock/launcher';
import { isCopied } from '@triplock/ledgers';
import { clockOff, eventually, stripeControl } from '@triplock/testing';
import { judgeStorm } from '../storm/checker.ts';
import { followArrivals, followFeed, gatherEvidence } from '../storm/evidence.ts';
import { allCustomersAct, sendStorm } from '../storm/stories.ts';
import { newKey } from '../test/partner.ts';
import { openSetBack } from '../test/set-back.ts';
import { command, home, onTheSystem, type Setup, upSystem } from '../test/system.ts';

const seed = Number(process.env['STORM_SEED'] ?? Date.now() % 1_000_000);
const isShort = process.env['STORM_SECONDS'] !== undefined;
/** Stories, and requests that are accepted in each part of a storm at least. */
const load = isShort ? { perSecond: 4, acceptedMin: 60 } : { perSecond: 8, acceptedMin: 250 };

/**
 * What is restored, and how long before the accident it was: for more than a moment the clocks of
 * whoever accepts, charges and is the provider are behind until then. After an hour nothing is
 * forgotten; after a day the provider knows no key any more.
 */
const moments = [
  { what: 'some seconds', hours: 0 },
  { what: 'an hour', hours: 1 },
  { what: 'more than a day', hours: 26 },
].slice(0, isShort ? 1 : 3);

const on = onTheSystem();

for (const { what, hours } of moments) {
  test(`after a restore of ${what} before, in the middle of a storm (seed ${seed}), nothing that partners were told is contradicted`, async (context) => {
    if (isCopied(on.system.ledger))
      return context.skip('what was told is taken over in PostgreSQL');
    await setBackInAStorm(context, hours);
  });
}

async function setBackInAStorm(context: TestContext, hours: number): Promise<void> {
  const { system } = on;
  const database = openSetBack(system);
  context.after(() => database.close());
  await clocksBehind(on, hours);
  context.after(() => clocksBehind(on, 0));
  const run = newKey('restored');
  const webhooks = followArrivals(context, system.catcher);
  const feeds = [on.acme, on.globex].map((each) => followFeed(context, each));
  const storm = sendStorm(on, { ...load, seed, run });
  let since: Date | undefined;
  try {
    await storm.accepts(load.acceptedMin);
    await database.copy();
    since = new Date();
    await storm.accepts(load.acceptedMin);
    // Customers who have been asked act, before and after the accident.
    await allCustomersAct(on);
    const told = webhooks.seen.length;
    await eventually(async () => webhooks.seen.length > told);
    const down = await command('down', '--services');
    assert.equal(down.code, 0, down.stdout + down.stderr);
    await database.failOver();
    const words = ['--since', since.toISOString(), '--by', 'ada', '--why', 'a restore', '--yes'];
    const rewound = await command('rewind', ...words);
    assert.equal(rewound.code, 0, rewound.stdout + rewound.stderr);
    context.diagnostic(rewound.stdout.split('\n').find((line) => line.includes('told')) ?? '');
    await clocksBehind(on, 0);
    await storm.accepts(load.acceptedMin / 2);
  } finally {
    await storm.stop();
  }
  await everybodyActs();
  await auditIsGreen(hours);
  await webhooks.stop();
  for (const feed of feeds) await feed.stop();
  const evidence = await gatherEvidence(on, {
    run,
    asked: storm.asked,
    webhooks: webhooks.seen,
    fed: feeds.flatMap(({ seen }) => seen),
  });
  const { rows, charges, refunds, disputes } = evidence;
  const counts = { rows, charges, refunds, disputes, webhooks: webhooks.seen };
  const counted = Object.entries(counts).map(([name, { length }]) => `${length} ${name}`);
  context.diagnostic(counted.join(', '));
  assert.deepEqual(judgeStorm(evidence), []);
  for (const { length } of [charges, refunds, disputes]) assert.ok(length > 0, counted.join(', '));
}

type Audit = { drift: { check: string; ids: string[] }[]; counts: { undelivered: number } };

/**
 * Waits until every layer agrees and every webhook has arrived. What was accepted long ago is
 * looked at once a minute, so that it takes some.
 */
async function auditIsGreen(hours: number): Promise<void> {
  // The auditor reads the provider's lists from its own beginning on: it meets no dispute of a
  // provider whose clock was behind that.
  const cannotSee = hours === 0 ? [] : ['dispute-unfounded'];
  await eventually(
    async () => {
      await allCustomersAct(on);
      const { code, stdout, stderr } = await command('audit', '--wait', '60', '--json');
      // Without a result nothing is known: a part or the auditor did not answer in time.
      assert.ok(code <= 1, stderr);
      const { drift, counts } = JSON.parse(stdout) as Audit;
      const seen = drift.filter(({ check }) => !cannotSee.includes(check));
      assert.deepEqual([seen, counts.undelivered], [[], 0]);
      return true;
    },
    { withinMs: 360_000, what: 'an audit without drift' },
  );
}

/** Until nobody is waited for any more who would have acted. */
async function everybodyActs(): Promise<void> {
  await eventually(async () => (await allCustomersAct(on)) === 0);
}

/**
 * Has whoever accepts, charges and is the provider live so many hours ago, and starts them anew.
 */
async function clocksBehind({ system }: Setup, hours: number): Promise<void> {
  const provider = stripeControl(system.providers.stripe.url, system.controlToken);
  await provider('POST', '/clock', { offsetMs: -hours * 3_600_000 });
  const behind = hours === 0 ? {} : clockOff(-hours);
  const settings = { 'ingest-gateway': behind, 'ledger-worker': behind };
  if (hours === 0) await upSystem();
  else await bringUp({ home, replicas: 2, settings });
}
