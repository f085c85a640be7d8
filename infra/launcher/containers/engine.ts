import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { CommandError } from '@triplock/command';
import { NoEngine } from '../errors.ts';
import { cloneFolder, defaultHome, type Home } from '../home.ts';

const run = promisify(execFile);
// A stop takes as long as a service may finish what it holds.
const answersWithinMs = 30_000;
const outputBytesMax = 16 * 1024 * 1024;

/** The bounds of all containers add up to more, and what they take in use to less than this. */
const engineBytesMin = 4 * 1024 ** 3;

/**
 * What the containers of a home are called together: two homes have their own, and their volumes.
 */
export function projectOf({ folder }: Home): string {
  if (folder === defaultHome) return 'triplock';
  return `triplock-${createHash('sha256').update(folder).digest('hex').slice(0, 8)}`;
}

/** Asks the engine; throws what it printed when it refuses. */
export async function docker(...args: readonly string[]): Promise<string> {
  return (await dockerOutput(...args)).stdout.trim();
}

/** As {@link docker}, with both of its streams. */
export function dockerOutput(
  ...args: readonly string[]
): Promise<{ stdout: string; stderr: string }> {
  return run('docker', args, { timeout: answersWithinMs, maxBuffer: outputBytesMax });
}

/** As docker-compose.yml has it for services: the engine starts one again that failed, so often. */
export const restartPolicy = 'on-failure:5';

/** Whether an engine can run the system; what is missing of one that answers, and the next step. */
export type EngineOutcome =
  | { outcome: 'able' }
  | { outcome: 'silent' }
  | { outcome: 'unfit'; because: string; nextStep: string };

/** Looks for an engine, within seconds. */
export async function askEngine(): Promise<EngineOutcome> {
  const memory = await docker('info', '--format', '{{.MemTotal}}').catch(() => undefined);
  if (memory === undefined || !/^[1-9]/.test(memory)) return { outcome: 'silent' };
  if (Number(memory) < engineBytesMin) {
    const gigabytes = (Number(memory) / 1024 ** 3).toFixed(1);
    const because = `the container engine has ${gigabytes} GB of memory and the system needs 4`;
    return { outcome: 'unfit', because, nextStep: 'give it more' };
  }
  const plugin = await docker('compose', 'version', '--short').catch(() => undefined);
  if (plugin !== undefined) return { outcome: 'able' };
  return {
    outcome: 'unfit',
    because: 'docker has no compose plugin',
    nextStep: 'install docker-compose-plugin',
  };
}

/**
 * Has an engine that can run the system.
 *
 * @throws CommandError that says what to do when none answers, or it has too little memory.
 */
export async function requireEngine(instead = 'or take --parts native'): Promise<void> {
  const engine = await askEngine();
  switch (engine.outcome) {
    case 'able':
      return;
    case 'silent':
      throw new NoEngine(`no container engine answers: start Docker, ${instead}`);
    case 'unfit':
      throw new CommandError(`${engine.because}: ${engine.nextStep}, ${instead}`);
    default:
      engine satisfies never;
  }
}

/** One `docker compose` for a home. */
export type ComposeRun = {
  home: Home;
  args: readonly string[];
  /** What the file takes from the environment, such as ports. */
  settings?: Readonly<Record<string, string>>;
  /** Profiles whose containers are meant as well; all by default. */
  profiles?: readonly string[];
  signal: AbortSignal;
  /** Shows each line that it writes. */
  show?: (line: string) => void;
};

/**
 * Runs docker compose on the system's file to its end.
 *
 * @throws ComposeFailed with its last words, and what `signal` is aborted with.
 */
export async function compose(run: ComposeRun): Promise<void> {
  const { home, args, settings, profiles = ['*'], signal, show } = run;
  signal.throwIfAborted();
  const file = join(cloneFolder, 'docker-compose.yml');
  const active = profiles.flatMap((name) => ['--profile', name]);
  const options = ['-p', projectOf(home), '-f', file, '--ansi', 'never', ...active];
  const child = spawn('docker', ['compose', ...options, ...args], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    // In a group of its own, a Ctrl-C at the terminal is answered here; who reads on just stops.
    detached: args[0] !== 'logs',
  });
  const stop = () => child.kill('SIGTERM');
  signal.addEventListener('abort', stop);
  const words: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      words.push(line);
      show?.(line);
    });
  }
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exitCode) => resolve(exitCode ?? 1));
  }).finally(() => signal.removeEventListener('abort', stop));
  signal.throwIfAborted();
  if (code !== 0) throw new ComposeFailed(words);
}

/** What docker compose printed before it gave up. */
export class ComposeFailed extends Error {
  override name = 'ComposeFailed';
  readonly words: readonly string[];
  constructor(words: readonly string[]) {
    super(words.at(-1) ?? 'docker compose failed');
    this.words = words;
  }
}

/**
 * Images that the engine lacks, of those that the system in containers stands on or is made from.
 */
export async function missingImages(): Promise<string[]> {
  const needed = new Set([...(await imagesOfParts()), ...imagesOfDockerfile()]);
  const listed = await docker('image', 'ls', '--format', '{{.Repository}}:{{.Tag}}');
  const there = new Set(listed.split('\n'));
  return [...needed].filter((image) => !there.has(image));
}

/** Those that are not built here; profiles bring what nobody asked for. */
async function imagesOfParts(): Promise<string[]> {
  const file = join(cloneFolder, 'docker-compose.yml');
  const images = await docker('compose', '-f', file, 'config', '--images');
  return images.split('\n').filter((image) => !image.startsWith('triplock'));
}

function imagesOfDockerfile(): string[] {
  const text = readFileSync(join(cloneFolder, 'infra/images/Dockerfile'), 'utf8');
  return [...text.matchAll(/^FROM (\S+:\S+)/gm)].map(([, image]) => image!);
}
