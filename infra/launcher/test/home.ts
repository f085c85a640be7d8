import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { testEndpoints, type Cleanup } from '@triplock/testing';
import { forgetData, keepDataInMemory } from '../data-in-memory.ts';
import { NoEngine } from '../errors.ts';
import { cloneFolder, defaultHome, homeAt } from '../home.ts';
import { findMarkedProcesses } from '../processes/identity.ts';
import { takeDown } from '../take-down.ts';

/** What a command printed, and how it ended. */
export type Ran = { code: number; stdout: string; stderr: string };

/** The first file of every npm script. */
export const launcher = join(cloneFolder, 'infra', 'launcher', 'triplock.mjs');

/**
 * An instance of one test's own, or of a file's whose tests have it made whole, in a path with
 * spaces; afterwards nothing of it is left.
 */
export function testHome(test: Cleanup, options: { below?: 'private folder' } = {}): string {
  const { parent, home } = makeTestHome();
  chmodSync(parent, options.below === 'private folder' ? 0o700 : 0o755);
  test.after(() => removeTestHome(parent));
  return home;
}

/** Every process that belongs to the home, recorded or not. */
export function processesOf(home: string): number[] {
  return findMarkedProcesses(homeAt(home));
}

/** Runs one of the npm scripts to its end. */
export function runScript(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const env = { ...process.env, ...environment };
  return new Promise((resolve) => {
    execFile(process.execPath, [launcher, ...args], { env }, (error, stdout, stderr) => {
      resolve({
        code: typeof error?.code === 'number' ? error.code : error ? 1 : 0,
        stdout,
        stderr,
      });
    });
  });
}

/** Starts one of the npm scripts, in a process group of its own. */
export function startScript(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): ChildProcess {
  const env = { ...process.env, ...environment };
  return spawn(process.execPath, [launcher, ...args], { env, detached: true, stdio: 'ignore' });
}

/** The home whose parts the tests share. */
export const sharedTestHome = join(defaultHome, 'test');

const folder = join(sharedTestHome, 'homes');
const homeBelow = join('of its own', 'home');

/**
 * Makes a home for one test, all in one folder, so that those of an interrupted run can be found.
 */
function makeTestHome(): { parent: string; home: string } {
  mkdirSync(folder, { recursive: true });
  // The process is named, so that what is left behind can be held against it.
  const parent = mkdtempSync(join(folder, `one test of ${process.pid} `));
  const home = join(parent, homeBelow);
  mkdirSync(home, { recursive: true });
  keepDataInMemory(homeAt(home).data);
  return { parent, home };
}

/** Stops what a test's home runs and removes it. */
async function removeTestHome(parent: string): Promise<void> {
  const home = join(parent, homeBelow);
  // A test that made a whole checkout there has its instance in the checkout's default home, and
  // what tests of the checkout run on below it.
  const own = join(home, '.triplock');
  for (const each of [home, own, join(own, 'test')]) {
    await takeDown({ home: each, data: 'forget' });
  }
  rmSync(parent, { recursive: true, force: true });
}

/**
 * Removes the homes that tests could not remove themselves, because they were killed. One whose
 * containers were a stand-in's has an engine that is gone: of it there is nothing but the folder.
 */
export async function removeTestHomes(): Promise<void> {
  if (!existsSync(folder)) return;
  const errors: unknown[] = [];
  for (const name of readdirSync(folder)) {
    const parent = join(folder, name);
    await removeTestHome(parent).catch((error: unknown) => {
      if (!(error instanceof NoEngine)) return void errors.push(error);
      forgetData(homeAt(join(parent, homeBelow)).data);
      rmSync(parent, { recursive: true, force: true });
    });
  }
  if (errors.length > 0) throw errors[0];
}

/** A second clone of this repository, with a default home of its own. */
export type Checkout = {
  folder: string;
  /** `<folder>/.triplock`. */
  home: string;
  /** Runs a command of this clone's launcher, as `npm run` does once everything is installed. */
  run(command: 'up' | 'down' | 'status', ...args: string[]): Promise<Ran>;
};

/** Copies the launcher; what was installed is shared, because nothing writes to it. */
export function testCheckout(test: TestContext): Checkout {
  const folder = testHome(test);
  const home = join(folder, '.triplock');
  mkdirSync(home);
  symlinkSync(join(cloneFolder, 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(cloneFolder, 'infra'), join(folder, 'infra'), { recursive: true });
  return {
    folder,
    home,
    run: (command, ...args) =>
      new Promise((resolve) => {
        const file = join(folder, 'infra', 'launcher', 'commands', `${command}.ts`);
        execFile(process.execPath, [file, ...args], (error, stdout, stderr) => {
          const code = typeof error?.code === 'number' ? error.code : error ? 1 : 0;
          resolve({ code, stdout, stderr });
        });
      }),
  };
}

/**
 * Kafka and Pub/Sub of the test run, as variables that give them to the launcher: a test about the
 * launcher starts Redis and PostgreSQL, which takes a second, and spares itself two Java processes.
 */
export async function givenBrokers(): Promise<Record<string, string>> {
  const { kafka, pubsub } = await testEndpoints();
  return { KAFKA_BROKERS: kafka, PUBSUB_EMULATOR_HOST: pubsub };
}

/** Of a part of one file, `server`, by what it holds. */
const checksumsOfParts = {
  'the server': 'd66e94899397fb42a577b778fdacf13944d4500a41f363450cb786ef95fd9833',
  'a newer server': '8f77043bff02e5834fabd7b1856523022f8c7de26e2c0a484c6b489b697f22c1',
};

/** A cache of one test's own, of which the launchers of several clones ask for a part. */
export function testPartsCache(test: TestContext) {
  const home = testHome(test);
  const env = { ...process.env, XDG_CACHE_HOME: join(home, 'cache') };
  const [cache, fetches] = [join(home, 'cache', 'triplock'), join(home, 'fetches')];
  const program = `
    const [{ cached }, { createHome }, { openSession }, fs] = await Promise.all(
      [${['programs/programs', 'home', 'session'].map((file) => `import('${cloneFolder}/infra/launcher/${file}.ts')`).join()}, import('node:fs')]);
    const [, home, checksum, got] = process.argv;
    const session = openSession(createHome(home), { report() {}, signal: new AbortController().signal });
    await cached(session, { name: 'part', checksum }, async (filling) => {
      fs.appendFileSync(${JSON.stringify(fetches)}, 'once ');
      fs.writeFileSync(filling + '/server', got);
    });`;
  const words = ['--input-type=module', '-e', program];
  type Asked = { pinned?: keyof typeof checksumsOfParts; got?: string };
  return {
    fetch: (clone: string, { pinned = 'the server', got = pinned }: Asked = {}) => {
      const asked = [join(home, clone), checksumsOfParts[pinned], got];
      return promisify(execFile)(process.execPath, [...words, ...asked], { env });
    },
    fetched: () => readFileSync(fetches, 'utf8').split(' ').length - 1,
    folderOf: (pinned: keyof typeof checksumsOfParts) =>
      join(cache, `part-${checksumsOfParts[pinned].slice(0, 32)}`),
    kept: () => readdirSync(cache).filter((name) => !name.startsWith('lock.')),
  };
}
