import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type System, askAdmin, findSystem } from '@triplock/demo';
import { CommandError, type Terminal } from '@triplock/command';
import {
  askClaimState,
  describeClaims,
  type ServiceName,
  type SettingsOfServices,
  bringUp,
  bringUpParts,
  declarations,
  runOf,
  stopProcess,
  takeDown,
  withLock,
} from '@triplock/launcher';
import { openForCommand } from '@triplock/postgres';
import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, loadavg, release, totalmem, type } from 'node:os';

/** How a command speaks and is interrupted. */
export type Listening = { terminal: Terminal; signal: AbortSignal };

/** A system for one command alone; its home is named after that. */
export type OwnSystem = Listening & {
  name: 'bench' | 'load' | 'compared' | 'capacity';
  settings: SettingsOfServices;
  /** Of each service; 1 by default. */
  replicas?: number | undefined;
  /** Of another commit; this clone's by default. */
  launcher?: Launcher;
  /** PostgreSQL counts its statements, where it can. */
  countsStatements?: true;
};

/**
 * A name for a run that no other has, for its keys and references. It has no digits: the last of
 * them and a request's number behind it can be a payment card's, which a gateway refuses.
 */
export function newRun(): string {
  return Array.from(randomBytes(12), (byte) => 'abcdefghijklmnop'[byte % 16]).join('');
}

/** What brings a system up and takes it down. */
export type Launcher = { bringUp: typeof bringUp; takeDown: typeof takeDown };

/**
 * Has these services run, and no other: they finish what they hold, and start with nothing warm.
 */
export type RunOnly = (names: readonly ServiceName[]) => Promise<void>;

/**
 * Runs `work` on a system that nobody else uses: empty, and gone afterwards.
 * What failed without being interrupted is stopped too, but leaves its logs and data for a look.
 */
export async function onOwnSystem<Result>(
  {
    name,
    settings,
    replicas = 1,
    countsStatements,
    launcher = { bringUp, takeDown },
    ...listening
  }: OwnSystem,
  work: (system: System, runOnly: RunOnly) => Promise<Result>,
): Promise<Result> {
  const { terminal, signal } = listening;
  const report = (line: string) => terminal.progress(line);
  const home = resolve(import.meta.dirname, '../.triplock', `${name}-system`);
  mkdirSync(dirname(home), { recursive: true });
  // Beside it: a launcher of another clone takes no folder that holds something for a home.
  return withLock(`${home}.lock`, { report, signal }, async () => {
    // What one that was killed has left.
    await launcher.takeDown({ home, data: 'forget', report });
    let data: 'keep' | 'forget' = 'forget';
    try {
      const wanted = { home, replicas, settings, report, signal };
      if (countsStatements) await countStatements(wanted);
      await launcher.bringUp(wanted);
      return await onRunningSystem(home, listening, (system) =>
        work(system, async (names) => {
          const except = declarations.map((each) => each.name).filter(isNotIn(names));
          for (const each of except) await stopService(home, each, replicas);
          system.endpoints = await launcher.bringUp({ ...wanted, except });
        }),
      );
    } catch (error) {
      if (!signal.aborted) {
        data = 'keep';
        terminal.note(`it failed; logs are in ${join(home, 'logs')} until the next ${name}`);
      }
      throw error;
    } finally {
      await launcher.takeDown({ home, data, report });
      terminal.clear();
    }
  });
}

const isNotIn = (names: readonly string[]) => (name: string) => !names.includes(name);

async function stopService(home: string, service: string, replicas: number): Promise<void> {
  const targets = Array.from({ length: replicas }, (_, n) => ({
    home,
    name: `${service}-${n + 1}`,
  }));
  for (const target of targets) {
    if ((await runOf(target)) !== undefined) await stopProcess(target);
  }
}

/** Has the server load pg_stat_statements, where it came with it: it takes another start. */
async function countStatements(wanted: Parameters<typeof bringUpParts>[0] & { home: string }) {
  const { postgres: url } = await bringUpParts(wanted);
  const database = openForCommand({ url, applicationName: 'bench', connectionsMax: 1 });
  try {
    const available = `SELECT 1 FROM pg_available_extensions WHERE name = 'pg_stat_statements'`;
    if ((await database.query(available)).length === 0) return;
    await database.query(`ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`);
  } finally {
    await database.close();
  }
  await stopProcess({ home: wanted.home, name: 'postgres' });
}

/** Runs `work` on a system that is up, and leaves it so. */
export async function onRunningSystem<Result>(
  home: string | undefined,
  listening: Listening,
  work: (system: System) => Promise<Result>,
): Promise<Result> {
  const system = await findSystem(home, listening);
  try {
    return await work(system);
  } finally {
    await system.close();
  }
}

/** The `/metrics` of every replica of a service, asked once each. */
export function readMetrics(system: System, service: ServiceName): Promise<string[]> {
  return Promise.all(
    system.replicas(service).map(async (replica) => {
      return (await askAdmin(replica, { path: '/metrics' })).text();
    }),
  );
}

const answersWithinMs = 10_000;

/** Every payment would be asked for again and again for most of a minute before k6 gave it up. */
export async function requireGateway(gateway: string, token: string): Promise<void> {
  const signal = AbortSignal.timeout(answersWithinMs);
  const headers = { authorization: `Bearer ${token}` };
  const asked = fetch(`${gateway}/v1/payments?limit=1`, { headers, signal });
  const answer = await asked.catch((error: unknown) => {
    const why = `nothing answers at ${gateway}`;
    throw new CommandError(`${why}: look whether the gateway runs there, and give its URL`, {
      cause: error,
    });
  });
  await answer.body?.cancel();
  if (answer.status === 401) {
    throw new CommandError(`${gateway} does not know the key: give one of its partners by --token`);
  }
}

/** Tells whether claims are warm, which what is measured depends on. */
export async function noteClaims({ endpoints }: System, terminal: Terminal): Promise<string> {
  const claims = describeClaims(await askClaimState(endpoints));
  terminal.note(`claims are ${claims}`);
  return claims;
}

/** The machine and the code that figures belong to. */
export type Rig = {
  cpu: string;
  cores: number;
  memoryGiB: number;
  os: string;
  node: string;
  /** `+` when files differ from it; `unknown` outside of a clone. */
  commit: string;
  /** The machine's load over the last minute before the bench: what else it was doing. */
  loadBefore: number;
  at: string;
};

/** Describes this machine and this clone as they are now. */
export function describeRig(): Rig {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    os: `${type()} ${release()}`,
    node: process.version,
    commit: commitOfClone(),
    loadBefore: Math.round(loadavg()[0]! * 100) / 100,
    at: new Date().toISOString(),
  };
}

function commitOfClone(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  try {
    const changed = git('status', '--porcelain') !== '';
    return git('rev-parse', '--short', 'HEAD') + (changed ? '+' : '');
  } catch {
    return 'unknown';
  }
}
