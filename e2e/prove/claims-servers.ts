import { globSync, mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  bringUpParts,
  findRedisLine,
  nameServer,
  type RedisLine,
  redisLines,
  type RedisServer,
  runOf,
  serverVariable,
  stopProcess,
  takeDown,
  withLock,
} from '@triplock/launcher';
import { UsageError, style, type Terminal } from '@triplock/command';
import { eventually } from '@triplock/testing';
import { Redis } from 'ioredis';
import type { PromiseFile } from './promises.ts';
import {
  outcomeOf,
  type ProvenPromise,
  provePromises,
  renderTried,
  secondsSince,
  type TestResult,
} from './run.ts';

const root = resolve(import.meta.dirname, '../..');

/** What its servers run in. */
const home = join(root, '.triplock', 'claims-servers');

/**
 * Every suite of what is kept in Redis: claims, the cache before PostgreSQL, effects, its users.
 */
const suites = [
  'libs/claims/redis/*.test.ts',
  'libs/stores/claims-hybrid/*.test.ts',
  'libs/claims/redis/redis-inspector.test.ts',
  'libs/once/{key-value-once,idempotent-route}.test.ts',
  'services/ingest-gateway/accept/claim-stores.test.ts',
  'infra/launcher/parts/redis.test.ts',
];

/** The scripts, the connection and what becomes of a server that is lost. */
const shortSuites = 'libs/claims/redis/';

/** What `--json` prints. */
export type ProvenServers = {
  /** Nothing failed on any server, and there was one. */
  ok: boolean;
  seconds: number;
  servers: readonly (Tried & Pick<RedisServer, 'product' | 'version' | 'from'>)[];
  notTried: readonly { line: string; why: string }[];
};

type Tried = { line: RedisLine; seconds: number; promises: readonly ProvenPromise[] };
type Chosen = { lines: readonly RedisLine[]; files: readonly PromiseFile[] };
type Invocation = { terminal: Terminal; signal: AbortSignal };

/**
 * Lines of servers and suites, by name: those of `--only`, else all; with `short` the oldest line
 * and the newest, and the suites of `libs/claims/redis`.
 *
 * @throws UsageError for an unknown one.
 */
export function chooseServers({
  only = '',
  short,
}: {
  only: string | undefined;
  short: boolean;
}): Chosen {
  const names = globSync(suites, { cwd: root }).map((path) => path.replace(/\.test\.ts$/, ''));
  const asked = only.split(',').flatMap((word) => word.trim() || []);
  const unknown = asked.filter(
    (word) => !redisLines.some((line) => line === word) && !names.includes(word),
  );
  if (unknown.length > 0) {
    const known = [...redisLines, ...names.toSorted()].join(', ');
    throw new UsageError(`${unknown.join(', ')}: no such server or suite; there are ${known}`);
  }
  const named = redisLines.filter((line) => asked.includes(line));
  const usual = short ? [redisLines[0]!, redisLines.at(-1)!] : redisLines;
  const wanted = names.filter((name) => asked.includes(name));
  const usualNames = short ? names.filter((name) => name.startsWith(shortSuites)) : names;
  const files = wanted.length > 0 ? wanted : usualNames;
  return {
    lines: named.length > 0 ? named : usual,
    files: files
      .toSorted()
      .map((name) => ({ name, path: join(root, `${name}.test.ts`), whyNotOn: {} })),
  };
}

/**
 * Runs the suites on one server after the other, and has each go on with what another left: whoever
 * installs or upgrades a server has its data next. A server that cannot be had here is left out.
 */
export async function proveServers(
  { lines, files }: Chosen,
  { terminal, signal }: Invocation,
): Promise<ProvenServers> {
  const began = performance.now();
  const report = (line: string) => terminal.progress(line);
  mkdirSync(home, { recursive: true });
  return withLock(join(home, 'prove.lock'), { report, signal }, async () => {
    const { found, notTried } = await findServers(lines, { terminal, signal });
    const servers: (Tried & { server: RedisServer })[] = [];
    await takeDown({ home, data: 'forget', report });
    try {
      for (const [line, server] of found) {
        const since = performance.now();
        const on = nameServer(server);
        terminal.note(`${on}: ${server.from}`);
        await replaceServer(server, { data: 'forget', terminal, signal });
        process.env['TRIPLOCK_TEST_ENDPOINTS'] = join(home, 'endpoints.json');
        const planned = files.map((file) => ({ file }));
        const promises = await provePromises(on, planned, { terminal, signal });
        servers.push({ line, server, promises, seconds: secondsSince(since) });
      }
      const handedOver = await handOver([...found.values()], { terminal, signal });
      const proven = servers.map(({ server, promises, ...tried }) => {
        const { product, version, from } = server;
        return { ...tried, product, version, from, promises: [...promises, ...handedOver(server)] };
      });
      const held = proven.every(({ promises }) =>
        promises.every(({ outcome }) => outcome !== 'failed'),
      );
      const ok = held && proven.length > 0;
      return { ok, seconds: secondsSince(began), servers: proven, notTried };
    } finally {
      await takeDown({ home, data: 'forget', report });
      terminal.clear();
    }
  });
}

async function findServers(
  lines: readonly RedisLine[],
  { terminal, signal }: Invocation,
): Promise<{ found: Map<RedisLine, RedisServer>; notTried: { line: string; why: string }[] }> {
  const found = new Map<RedisLine, RedisServer>();
  const notTried: { line: string; why: string }[] = [];
  for (const line of lines) {
    const report = (words: string) => terminal.progress(`${line}: ${words}`);
    const one = await findRedisLine(line, { report, signal });
    if (one.outcome === 'found') found.set(line, one.server);
    else notTried.push({ line, why: one.why });
  }
  return { found, notTried };
}

type Replacing = Invocation & { data: 'keep' | 'forget' };

/** Has this server run in the home, instead of the one that does, and gives its URL. */
async function replaceServer(
  server: RedisServer,
  { data, terminal, signal }: Replacing,
): Promise<string> {
  const report = (line: string) => terminal.progress(line);
  const name = 'redis';
  if ((await runOf({ home, name })) !== undefined) await stopProcess({ home, name });
  if (data === 'forget') rmSync(join(home, 'data', name), { recursive: true, force: true });
  process.env[serverVariable] = server.file;
  const { redis } = await bringUpParts({ home, report, signal });
  const its = await withClient(redis, (client) => client.info('server'));
  // Valkey says there which Redis it is compatible with.
  const field = server.product === 'Valkey' ? 'valkey_version' : 'redis_version';
  if (new RegExp(`^${field}:(\\S+)`, 'm').exec(its)?.[1] === server.version) return redis;
  throw new Error(`${server.file} is not the server that answers: ${its}`);
}

/** Reads no log in several files, which all that came later write: it begins empty, and is cold. */
const beginsEmpty: RedisLine = 'redis-6.2';
const handingOver = 'goes on with what another left';

/** Each server on what the one before it left, from the oldest to the newest and back. */
async function handOver(
  servers: readonly RedisServer[],
  { terminal, signal }: Invocation,
): Promise<(server: RedisServer) => ProvenPromise[]> {
  const results = new Map<RedisServer, TestResult[]>();
  const seconds = new Map<RedisServer, number>();
  let before: RedisServer | undefined;
  for (const server of [...servers, ...servers.toReversed().slice(1)]) {
    const since = performance.now();
    const data = before === undefined ? 'forget' : 'keep';
    const url = await replaceServer(server, { data, terminal, signal });
    if (before !== undefined) {
      const result = await judgeLeft(url, { server, before });
      results.set(server, [...(results.get(server) ?? []), result]);
    }
    await leaveClaim(url, server);
    before = server;
    seconds.set(server, (seconds.get(server) ?? 0) + secondsSince(since));
  }
  return (server) => {
    const tests = results.get(server);
    if (tests === undefined) return [];
    const outcome = outcomeOf(tests);
    return [{ promise: handingOver, seconds: seconds.get(server)!, outcome, tests }];
  };
}

const [kept, by] = ['{prove:0}:claim:left', 'by'];

async function judgeLeft(
  url: string,
  { server, before }: { server: RedisServer; before: RedisServer },
): Promise<TestResult> {
  const name = `${nameServer(before)} left a claim`;
  const [left, leavesMs] = await withClient(url, (client) =>
    Promise.all([client.hget(kept, by), client.pttl(kept)]),
  );
  if (left === null && lineOf(server) === beginsEmpty) {
    return { name, outcome: 'not applicable', why: 'it begins empty: the log is in several files' };
  }
  if (left === nameServer(before) && leavesMs > 0) return { name, outcome: 'passed', seconds: 0 };
  const why = `it has one of ${left ?? 'nobody'}, which leaves in ${leavesMs} ms`;
  return { name, outcome: 'failed', seconds: 0, why };
}

function lineOf({ product, version }: RedisServer): string {
  return `${product.toLowerCase()}-${version.split('.').slice(0, 2).join('.')}`;
}

/** By a script, as claims are written, before and behind a rewrite of the log. */
async function leaveClaim(url: string, server: RedisServer): Promise<void> {
  const write = `redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
    return redis.call('PEXPIRE', KEYS[1], ARGV[3])`;
  await withClient(url, async (client) => {
    const leave = (words: string) => client.eval(write, 1, kept, by, words, 3_600_000);
    await leave('a server before its rewrite');
    await client.bgrewriteaof();
    const isWritten = async () => {
      const log = await client.info('persistence');
      return /^aof_rewrite_in_progress:0/m.test(log) && /^aof_rewrite_scheduled:0/m.test(log);
    };
    await eventually(isWritten, { withinMs: 30_000, what: 'the rewrite of the log' });
    await leave(nameServer(server));
  });
}

async function withClient<Answer>(
  url: string,
  work: (client: Redis) => Promise<Answer>,
): Promise<Answer> {
  const client = new Redis(url);
  return work(client).finally(() => client.disconnect());
}

/** The table of suites × servers, what was left out and why, and in the last line what held. */
export function renderServers({ ok, seconds, servers, notTried }: ProvenServers): string[] {
  const names = servers.map(nameServer);
  const left = notTried.map(({ line }) => line).join(', ');
  return [
    ...renderTried(servers.map((server) => ({ ...server, on: nameServer(server) }))),
    ...notTried.map(({ line, why }) => `not tried: ${line}: ${why}`),
    '',
    ok
      ? style.good(
          `✔ the claims suite holds on ${names.join(', ')}, in ${Math.round(seconds)} s` +
            (left === '' ? '' : `; not tried: ${left}`),
        )
      : style.bad(servers.length === 0 ? '✘ there was no server to try' : '✘ a promise failed'),
  ];
}
