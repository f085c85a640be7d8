import { createHash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { CommandError, UsageError } from '@triplock/command';
import { defaultHome, homeAt, readJson, type Home } from './home.ts';
import { rewrite, take, thisProcess, type Owner } from './lock.ts';
import { isSameProcess } from './processes/identity.ts';
import { readState, type Reservations, type Session } from './session.ts';

/** A port that a process listens on. */
export type PortRequest = {
  /** What it is for, e.g. `http`; with the process's name it is remembered. */
  use: string;
  /** In the default home: a port that nobody's own Redis or PostgreSQL sits on. */
  usual: number;
  /** The environment variable that asks for another; then that one or none. */
  variable: string;
  /** Added to both, so that replicas get successive ports. */
  offset?: number;
};

// Other homes get ports from here, below where Linux takes the ports of outgoing connections from.
const elsewhere = { from: 20_000, count: 10_000 };

/**
 * The ports of a process: those it had before, else the usual ones, else free ones, and says so.
 *
 * @throws CommandError when a port that was asked for is taken.
 */
export async function choosePorts(
  session: Session,
  wanted: { name: string; requests: readonly PortRequest[] },
): Promise<Record<string, number>> {
  const ports: Record<string, number> = {};
  for (const request of wanted.requests) {
    ports[request.use] = await choosePort(session, `${wanted.name}.${request.use}`, request);
  }
  return ports;
}

/**
 * Makes every choice of ports that something is about to need, before any of it starts.
 *
 * @throws CommandError that names all that are taken.
 */
export async function chooseFirst(choices: readonly (() => Promise<unknown>)[]): Promise<void> {
  const problems: CommandError[] = [];
  // One after the other, so that no two are given the same free port.
  for (const choose of choices) {
    await choose().catch((error: unknown) => {
      if (!(error instanceof CommandError)) throw error;
      problems.push(error);
    });
  }
  if (problems.length <= 1) {
    if (problems[0] !== undefined) throw problems[0];
    return;
  }
  throw new CommandError(problems.map(({ message }) => message).join('\n'));
}

/** The port that the environment asks for, if it does. */
export function askedPort({ variable, offset = 0 }: PortRequest): number | undefined {
  const text = process.env[variable]?.trim();
  if (!text) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) + offset : NaN;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError(`${variable}: expected a port from 1 to 65535`);
}

async function choosePort(session: Session, key: string, request: PortRequest): Promise<number> {
  const { state, home, report, reservations } = session;
  const asked = askedPort(request);
  const ofOthers = new Set(
    Object.entries(state.ports).flatMap(([other, port]) => (other === key ? [] : [port])),
  );
  // Reserved before it is looked at: whoever else finds it free leaves it alone until it is bound.
  const isOurs = async (port: number) =>
    !ofOthers.has(port) && reservations.reserve(port) && (await isFree(port));

  if (asked !== undefined) {
    if (!reservations.reserve(asked) || !(await isFree(asked))) {
      const why = `port ${asked} for ${key} is taken`;
      throw new CommandError(
        `${why}: end what listens there, or set ${request.variable} to another port`,
      );
    }
    state.ports[key] = asked;
    return asked;
  }
  const start = elsewhere.from + (hash(`${home.folder} ${key}`) % elsewhere.count);
  const usual = request.usual + (request.offset ?? 0);
  const first = state.ports[key] ?? (home.folder === defaultHome ? usual : start);
  let chosen = first;
  for (let step = 0; !(await isOurs(chosen)); step += 1) {
    if (step === elsewhere.count)
      throw new CommandError(`no free port for ${key}: set ${request.variable} to one`);
    chosen = elsewhere.from + ((start - elsewhere.from + step) % elsewhere.count);
  }
  if (chosen !== first) report(`${key}: port ${first} is taken, using ${chosen}`);
  state.ports[key] = chosen;
  return chosen;
}

/** Whether a server could listen on the port of 127.0.0.1 now. */
export async function isFree(port: number): Promise<boolean> {
  // On macOS one may listen beside a server that listens on all addresses, and never be reached.
  if (await answers(port)) return false;
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1' }, () => server.close(() => resolve(true)));
  });
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      resolve(true);
      socket.destroy();
    });
    socket.once('error', () => resolve(false));
  });
}

function hash(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}

/** A file per port says whose it is: the home, and the launcher while one is at work on it. */
type Reservation = { home: string; launcher?: Owner };

/** One folder for the user on this machine, whatever TMPDIR says: clones differ in that. */
export const reservationsFolder = join('/tmp', `triplock-ports-${process.getuid?.() ?? 'user'}`);

/**
 * Opens the reservations for a home. Call `reserve` under the home's lock. A launcher that was
 * killed at any line leaves a file behind whose owner is dead, and whoever comes next follows it.
 */
export function openReservations(home: Home): Reservations {
  const mine: Reservation = { home: home.folder, launcher: thisProcess() };
  const held = new Map<number, string>();
  return {
    reserve(port) {
      if (held.has(port)) return true;
      ensureFolder();
      const taken = take(join(reservationsFolder, String(port)), mine, (other) =>
        isAnothers(other, mine),
      );
      if (taken.outcome === 'taken') return false;
      held.set(port, taken.name);
      return true;
    },
    release() {
      for (const name of held.values()) rewrite<Reservation>(name, { home: home.folder });
      held.clear();
    },
  };
}

/**
 * Removes what is left of a home's reservations. Call it under the home's lock, when none of its
 * processes lives: nobody else would have it as the home's.
 */
export function forgetReservations({ folder: home }: Home): void {
  if (!existsSync(reservationsFolder)) return;
  for (const name of readdirSync(reservationsFolder).filter((each) => /^\d+\.\d+$/.test(each))) {
    const file = join(reservationsFolder, name);
    const reserved = readJson(file) as Reservation | undefined;
    if (reserved?.home === home) rmSync(file, { force: true });
  }
}

/** Under the lock of our own home, what an earlier launcher reserved for it is ours. */
function isAnothers({ home, launcher }: Reservation, mine: Reservation): boolean {
  if (home === mine.home) return false;
  if (launcher !== undefined && isSameProcess(launcher)) return true;
  return Object.values(readState(homeAt(home)).processes).some(isSameProcess);
}

/** @throws CommandError where the folder is another user's, who knew its name. */
function ensureFolder(): void {
  mkdirSync(reservationsFolder, { recursive: true, mode: 0o700 });
  const { uid } = lstatSync(reservationsFolder);
  if (lstatSync(reservationsFolder).isDirectory() && uid === (process.getuid?.() ?? uid)) return;
  throw new CommandError(
    `${reservationsFolder} should be a folder of this user: look at it and remove it`,
  );
}
