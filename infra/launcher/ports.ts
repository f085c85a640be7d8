import { createHash } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { LauncherError, UsageError } from './errors.ts';
import { defaultHome } from './home.ts';
import type { Session } from './session.ts';

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
 * @throws LauncherError when a port that was asked for is taken.
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
      throw new LauncherError(`${why}: free it, or set ${request.variable} to another`);
    }
    state.ports[key] = asked;
    return asked;
  }
  const start = elsewhere.from + (hash(`${home.folder} ${key}`) % elsewhere.count);
  const usual = request.usual + (request.offset ?? 0);
  const first = state.ports[key] ?? (home.folder === defaultHome ? usual : start);
  let chosen = first;
  for (let step = 0; !(await isOurs(chosen)); step += 1) {
    if (step === elsewhere.count) throw new LauncherError(`no free port for ${key}`);
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
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

function hash(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}
