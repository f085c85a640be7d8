import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { testPart } from './endpoints.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import type { Cleanup } from './test-database.ts';

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

/**
 * Starts a Redis server that ends with the test: the same program as the shared one, which tells
 * where it is. It listens on 127.0.0.1, in a folder of its own.
 */
export async function createTestRedis(
  test: Cleanup,
  setup: { running: boolean; args?: readonly string[] } = { running: true },
): Promise<TestRedis> {
  const executable = await findExecutable();
  const folder = await mkdtemp(join(tmpdir(), 'triplock-redis-'));
  const port = await freePort();
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
    server = spawn(executable, [...options, ...(setup.args ?? [])], { stdio: 'ignore' });
    await eventually(async () => (await command('PING')) === 'PONG');
  };
  test.after(async () => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  });
  if (setup.running) await start();
  const pause = () => void server?.kill('SIGSTOP');
  return { url, command, kill, start, pause, resume: () => void server?.kill('SIGCONT') };
}

async function findExecutable(): Promise<string> {
  const redis = await testPart('redis');
  const info = await withClient(redis, (client) => client.info('server'));
  const told = /^executable:(\S.*?)\s*$/m.exec(info)?.[1];
  return told !== undefined && existsSync(told) ? told : 'redis-server';
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
