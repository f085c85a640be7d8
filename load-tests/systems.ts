import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type System, askAdmin, findSystem } from '@triplock/demo';
import { type SettingsOfServices, bringUp, takeDown, withLock } from '@triplock/launcher';
import type { Terminal } from '@triplock/operator';
import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, loadavg, release, totalmem, type } from 'node:os';

/** How a command speaks and is interrupted. */
export type Listening = { terminal: Terminal; signal: AbortSignal };

/** A system for one command alone; its home is named after that. */
export type OwnSystem = Listening & { name: 'bench' | 'load'; settings: SettingsOfServices };

/**
 * Runs `work` on a system that nobody else uses: one of each service, empty, and gone afterwards.
 * What failed without being interrupted is stopped too, but leaves its logs and data for a look.
 */
export async function onOwnSystem<Result>(
  { name, settings, ...listening }: OwnSystem,
  work: (system: System) => Promise<Result>,
): Promise<Result> {
  const { terminal, signal } = listening;
  const report = (line: string) => terminal.progress(line);
  const home = resolve(import.meta.dirname, '../.triplock', `${name}-system`);
  mkdirSync(home, { recursive: true });
  return withLock(join(home, 'own.lock'), { report, signal }, async () => {
    // What one that was killed has left.
    await takeDown({ home, data: 'forget', report });
    let data: 'keep' | 'forget' = 'forget';
    try {
      await bringUp({ home, replicas: 1, settings, report, signal });
      return await onRunningSystem(home, listening, work);
    } catch (error) {
      if (!signal.aborted) {
        data = 'keep';
        terminal.note(`it failed; logs are in ${join(home, 'logs')} until the next ${name}`);
      }
      throw error;
    } finally {
      await takeDown({ home, data, report });
      terminal.clear();
    }
  });
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

type ServiceName = Parameters<System['replicas']>[0];

/** The `/metrics` of every replica of a service, asked once each. */
export function readMetrics(system: System, service: ServiceName): Promise<string[]> {
  return Promise.all(
    system.replicas(service).map(async (replica) => {
      return (await askAdmin(replica, { path: '/metrics' })).text();
    }),
  );
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
