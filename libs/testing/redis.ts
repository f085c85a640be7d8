import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { startRedisContainer } from './containers.ts';
import { eventually } from './eventually.ts';
import { freePort, testNamespace, type Cleanup } from './isolation.ts';
import { chooseTestParts, testPart } from './parts.ts';

/** A Redis server of one test's own, to be killed, restarted and made to stand still. */
export type TestRedis = {
  url: string;
  /** Runs one command from outside. */
  command(name: string, ...args: string[]): Promise<unknown>;
  /** SIGKILL: what was not saved is lost. */
  kill(): Promise<void>;
  /** Starts it again on the same port, with the last snapshot if `SAVE` was called. */
  start(): Promise<void>;
  /** SIGSTOP: connections stay open and nothing is answered. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
};

type Setup = {
  running: boolean;
  args?: readonly string[];
  /** It is a cluster by itself, which listens on a second port: 10 000 above its own. */
  cluster?: true;
};

/**
 * Starts a Redis server that ends with the test: the program that TRIPLOCK_REDIS_SERVER names, as
 * the launcher does for the shared one; else the same as the shared one, which INFO names, or the
 * same image where that is in a container. It is reached on 127.0.0.1.
 */
export async function createTestRedis(
  test: Cleanup,
  setup: Setup = { running: true },
): Promise<TestRedis> {
  const executable = await findExecutable();
  if (executable !== undefined) return asProcess(test, setup, executable);
  const { parts } = await chooseTestParts();
  return parts === 'containers' ? asContainer(test, setup) : asProcess(test, setup, 'redis-server');
}

async function asProcess(test: Cleanup, setup: Setup, executable: string): Promise<TestRedis> {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-redis-'));
  const port = await freePort(setup.cluster && 10_000);
  const url = `redis://127.0.0.1:${port}`;
  const options = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', ''];
  let server: ChildProcess | undefined;

  const command = (name: string, ...args: string[]) =>
    withClient(url, (client) => client.call(name, ...args));
  const kill = async () => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const gone = once(server, 'exit');
    server.kill('SIGKILL');
    await gone;
  };
  const start = async () => {
    const cluster = setup.cluster ? ['--cluster-enabled', 'yes'] : [];
    const args = [...options, ...cluster, ...(setup.args ?? [])];
    const started = spawn(executable, args, { stdio: 'ignore' });
    server = started;
    // Another server may have taken the port meanwhile, and would answer in its place.
    const isOurs = async () => {
      const info = String(await command('INFO', 'server'));
      return info.includes(`process_id:${started.pid}\r\n`);
    };
    await eventually(async () => started.exitCode !== null || (await isOurs()));
    assert.equal(started.exitCode, null, `redis did not start on port ${port}`);
  };
  test.after(async () => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  });
  if (setup.running) await start();
  const pause = () => void server?.kill('SIGSTOP');
  return { url, command, kill, start, pause, resume: () => void server?.kill('SIGCONT') };
}

async function asContainer(test: Cleanup, setup: Setup): Promise<TestRedis> {
  const cluster = setup.cluster ? ['--cluster-enabled', 'yes'] : [];
  const args = ['--save', '', ...cluster, ...(setup.args ?? [])];
  const { id, address: url, stop } = await startRedisContainer(args);
  test.after(stop);
  const docker = (name: string) => void execFileSync('docker', [name, id], { stdio: 'pipe' });
  const command = (name: string, ...words: string[]) =>
    withClient(url, (client) => client.call(name, ...words));
  const server: TestRedis = {
    url,
    command,
    kill: async () => docker('kill'),
    start: async () => {
      docker('start');
      await eventually(async () => (await command('PING')) === 'PONG');
    },
    pause: () => docker('pause'),
    resume: () => docker('unpause'),
  };
  if (!setup.running) await server.kill();
  return server;
}

/** The program that was asked for, else the shared server's, where that runs on this machine. */
async function findExecutable(): Promise<string | undefined> {
  const named = process.env['TRIPLOCK_REDIS_SERVER']?.trim();
  if (named) return named;
  const redis = await testPart('redis');
  const info = await withClient(redis, (client) => client.info('server'));
  const path = /^executable:(\S.*?)\s*$/m.exec(info)?.[1];
  return path !== undefined && existsSync(path) ? path : undefined;
}

async function withClient<Result>(
  url: string,
  work: (client: Redis) => Promise<Result>,
): Promise<Result> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  client.on('error', () => undefined); // connect() rejects with the same error.
  try {
    await client.connect();
    return await work(client);
  } finally {
    client.disconnect();
  }
}

/** A proxy that keeps its clients' connections when it goes over to another server. */
export type TestRedisProxy = { url: string; leadTo(server: { url: string }): Promise<void> };

/** Opens a proxy before a server; its clients speak RESP3, and nothing of theirs is under way. */
export async function createTestRedisProxy(
  test: Cleanup,
  first: { url: string },
): Promise<TestRedisProxy> {
  let target = new URL(first.url);
  const ways = new Map<Socket, Socket>();
  const lead = async (inbound: Socket) => {
    inbound.pause();
    ways.get(inbound)?.destroy();
    const outbound = connect({ host: target.hostname, port: Number(target.port) });
    ways.set(inbound, outbound);
    outbound.on('error', () => inbound.destroy());
    outbound.write('HELLO 3\r\n');
    await once(outbound, 'data');
    outbound.on('data', (chunk) => inbound.write(chunk));
    outbound.on('close', () => ways.get(inbound) === outbound && inbound.destroy());
    inbound.resume();
  };
  const server = createServer({ pauseOnConnect: true }, (inbound) => {
    inbound.on('data', (chunk) => ways.get(inbound)?.write(chunk));
    inbound.on('error', () => inbound.destroy());
    inbound.on('close', () => {
      ways.get(inbound)?.destroy();
      ways.delete(inbound);
    });
    lead(inbound).catch(() => inbound.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.after(async () => {
    for (const inbound of ways.keys()) inbound.destroy();
    server.close();
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leadTo: async ({ url }) => {
      target = new URL(url);
      await Promise.all([...ways.keys()].map(lead));
    },
  };
}

/** The keys of one test in the shared Redis. */
export type TestKeyspace = {
  url: string;
  namespace: string;
  /** Deletes them all at once, which is what FLUSHALL does to an own server. */
  forget(): Promise<void>;
};

/**
 * A namespace of one test's own, for keys that begin with `{<namespace>:`; empty after the test.
 */
export async function createTestKeyspace(test: Cleanup): Promise<TestKeyspace> {
  const url = await testPart('redis');
  const namespace = testNamespace('claims');
  const redis = new Redis(url);
  const forget = async () => {
    const keys = await redis.keys(`{${namespace}:*`);
    if (keys.length > 0) await redis.del(...keys);
  };
  test.after(async () => {
    await forget();
    await redis.quit();
  });
  return { url, namespace, forget };
}

/** Makes a user of a Redis by rules of its ACL, gone after the test; gives a URL with it. */
export async function createRedisUser(test: Cleanup, url: string, rules: string): Promise<string> {
  const at = new URL(url);
  const [username, password] = [testNamespace('user'), testNamespace('password')];
  Object.assign(at, { username, password });
  const call = (...words: string[]) => withClient(url, (client) => client.call('ACL', ...words));
  // A server of the test's own is gone by then, and its users with it.
  test.after(() =>
    call('DELUSER', username).then(
      () => undefined,
      () => undefined,
    ),
  );
  await call('SETUSER', username, 'reset', 'on', `>${password}`, ...rules.split(' '));
  return at.href;
}
