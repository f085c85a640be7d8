import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, loadavg, release, totalmem, type } from 'node:os';

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
