import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { afterEach, before, test } from 'node:test';
import { type Endpoints, askPubSub, homeWithout } from '@triplock/launcher';
import { openForCommand } from '@triplock/postgres';
import { Redis } from 'ioredis';
import { Kafka, logLevel } from 'kafkajs';
import { command, home, interruptAt, upSystem } from '../test/system.ts';

let system: Endpoints;
before(async () => {
  system = await upSystem();
});
// Whatever was shown: nothing of it is left, and the system that it was beside is as it was.
afterEach(async () => {
  assert.deepEqual(await leftovers(), []);
});

type Report = {
  survey: Record<'records' | 'rows' | 'conflicts' | 'deliveries' | 'webhooks', number> & {
    webhookIds: number;
  };
  escaped: { id: string; duplicates: number; what: string }[];
  duplicates: number;
  complaint?: string;
};

async function without(guard: string, ...scenario: string[]): Promise<Report & { code: number }> {
  const args = [...scenario, '--without', guard, '--json'];
  const { code, stdout, stderr } = await command('scenario', ...args);
  assert.match(stdout, /^\{/, stderr);
  return { ...(JSON.parse(stdout) as Report), code };
}

test('without claims a retry and a reused key are taken for new, and the ledger holds', async () => {
  const { code, survey, escaped, complaint } = await without('claims');
  assert.equal(code, 0);
  assert.match(escaped[0]!.what, /instead of a replay; 26.00 EUR .* instead of a 422/);
  assert.partialDeepStrictEqual(survey, { records: 3, rows: 1, conflicts: 1, webhooks: 2 });
  assert.match(complaint!, /a retry is told that it is one/);
});

test('without the ledger a replayed topic books every payment again', async () => {
  const { code, survey, escaped, complaint } = await without('ledger');
  assert.equal(code, 0);
  assert.match(escaped[0]!.what, /2 rows: 50.00 EUR booked instead of 25.00 EUR/);
  assert.partialDeepStrictEqual(survey, { records: 1, rows: 2, deliveries: 1, webhooks: 1 });
  assert.match(complaint!, /a replay of the whole topic changes nothing/);
});

test('without the inbox a partner gets a webhook again', async () => {
  const { code, survey, escaped } = await without('inbox');
  assert.equal(code, 0);
  assert.equal(escaped.length, 3);
  for (const { what } of escaped) assert.match(what, /2 webhooks under the one webhook-id/);
  assert.partialDeepStrictEqual(survey, { rows: 3, deliveries: 6, webhooks: 6, webhookIds: 3 });
});

test('where the other guards let nothing escape, the command says so and fails', async () => {
  const { code, duplicates, complaint } = await without('inbox', 'retry');
  assert.deepEqual(
    { code, duplicates, complaint },
    { code: 1, duplicates: 0, complaint: undefined },
  );
});

test('a guard that is none is refused before anything starts', async () => {
  for (const args of [['sql'], ['claims', '--all']]) {
    assert.equal((await command('scenario', '--without', ...args)).code, 2);
  }
});

test('Ctrl-C takes the second system out again', async () => {
  const { code, output } = await interruptAt(/ pays /, ['scenario', '--without', 'claims'], {
    look: async () => assert.notDeepEqual(await leftovers(), [], 'it is there now'),
  });
  assert.equal(code, 130, output);
});

/** What there is of any system that lacks a guard: folders, processes, and things in the parts. */
async function leftovers(): Promise<string[]> {
  const folders = ['claims', 'ledger', 'inbox'].map((guard) => homeWithout(home, guard));
  const inParts = await Promise.all([
    namesInPostgres(),
    namesInKafka(),
    namesInRedis(),
    namesInPubSub(),
  ]);
  const ours = inParts.flat().filter((name) => /without[-_]/.test(name));
  return [...folders.filter(existsSync), ...ours, ...processesBelow(`${home}/without-`)];
}

async function namesInPostgres(): Promise<string[]> {
  const server = openForCommand({ url: system.postgres, applicationName: 'e2e' });
  const rows = await server.query<{ datname: string }>('SELECT datname FROM pg_database');
  await server.close();
  return rows.map(({ datname }) => datname);
}

async function namesInKafka(): Promise<string[]> {
  const brokers = system.kafka.split(',');
  const admin = new Kafka({ clientId: 'e2e', brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const [topics, { groups }] = await Promise.all([admin.listTopics(), admin.listGroups()]);
  await admin.disconnect();
  return [...topics, ...groups.map(({ groupId }) => groupId)];
}

async function namesInRedis(): Promise<string[]> {
  const redis = new Redis(system.redis);
  const keys = await redis.keys('*');
  redis.disconnect();
  return keys;
}

/** The text of both lists, which names each topic and subscription. */
async function namesInPubSub(): Promise<string[]> {
  const lists = ['topics', 'subscriptions', 'snapshots'].map(async (name) => {
    const { ok, text } = await askPubSub(system.pubsub, { method: 'GET', name });
    assert.ok(ok, text);
    return text.match(/projects\/[^"]+/g) ?? [];
  });
  return (await Promise.all(lists)).flat();
}

/** Processes that carry the mark of a home there. Linux tells it. */
function processesBelow(folder: string): string[] {
  if (process.platform !== 'linux') return [];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`TRIPLOCK_HOME=${folder}`);
    } catch {
      return false; // Ended meanwhile, or somebody else's.
    }
  });
}
