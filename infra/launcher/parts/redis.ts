import { createHash, createHmac } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { missingPart } from '../errors.ts';
import type { Session } from '../session.ts';
import type { Fetched, OwnServer, Part, Site } from './part.ts';
import { askVersion, cached, findOnPath, hasMaven, runMaven } from './programs.ts';

const artifact = 'com.github.codemonstur:embedded-redis:1.4.3';

/** Of its binaries. */
const checksums: Readonly<Record<string, string>> = {
  'darwin-amd64': 'ce342ada418e4f0b2a0942d9623208289d22bc6b59e2810e457fa483783a67bb',
  'darwin-arm64': '8d0c71194b662e67b47f82bed60ea45c50a33c24afb8226eebf3487071be825c',
  'linux-amd64': 'c70382a17ec2f5380d00d3929cf56214da6a31d546cad2e9474de35c033c8f7f',
  'linux-arm64': '8e85c88b74e267a0d597bffa6ad43219fcda6ba68a44a994d327e88ac234e322',
};

/** Guard 1's store. */
export const redis: Part = {
  name: 'redis',
  title: 'Redis',
  given: { variable: 'REDIS_URL', address: (value) => value },
  ports: [{ use: 'port', usual: 16_379, variable: 'TRIPLOCK_REDIS_PORT' }],
  fetch: fetchRedis,
  address: ({ session, ports }) => redisOwner(session.credentials, `127.0.0.1:${ports['port']}`),
  probe: async (address) => void (await ask(address, (client) => client.ping())),
  recognise,
  stop: { signal: 'SIGTERM', withinMs: 10_000 },
};

/** The rights of the services' users, as docs/operating.md has them for a server elsewhere. */
export const redisRights = {
  gateway:
    '-@all +info +time +ping +client|setname +evalsha +eval +get +set +del +strlen +hget +hgetall +hkeys +hmget +hset +hdel +pexpire +pexpireat +pttl',
  auditor: '-@all +info +time +ping +client|setname +scan +get +hget +hmget +pttl',
};

/** A server that is started here, as who may do everything on it. */
export function redisOwner({ redisPassword }: { redisPassword: string }, host: string): string {
  return `redis://owner:${redisPassword}@${host}`;
}

/**
 * The server's URL as one of its users. One that was given is used as it was given: it has the
 * users of whoever runs it.
 */
export function redisAs(address: string, user: keyof typeof redisRights): string {
  const url = new URL(address);
  if (url.username !== 'owner') return address;
  Object.assign(url, { username: user, password: passwordOf(user, url.password) });
  return url.href;
}

/**
 * What the server reads its users from, with hashes for passwords. Claims of a system that lives
 * beside the usual one begin otherwise. Who shows no password may do nothing.
 *
 * Nobody can be the default user, which is off; but as it Redis 7.0 to 8.2 replays the append-only
 * file at a start, where each script's writes are a transaction, and of one that its rights do not
 * allow it silently drops all (https://github.com/redis/redis/issues/14541).
 */
export function redisUsers({ redisPassword }: { redisPassword: string }): string {
  const hashOf = (password: string) => `#${createHash('sha256').update(password).digest('hex')}`;
  const users = Object.entries(redisRights).map(([user, rights]) => {
    const hash = hashOf(passwordOf(user, redisPassword));
    return `user ${user} on ${hash} ~{triplock:* ~{*.triplock:* ${rights}`;
  });
  const owner = `user owner on ${hashOf(redisPassword)} ~* &* +@all`;
  return [owner, ...users, 'user default reset off ~* +@all', ''].join('\n');
}

function passwordOf(user: string, ownersPassword: string): string {
  return createHmac('sha256', ownersPassword).update(user).digest('base64url');
}

async function fetchRedis(session: Session): Promise<Fetched> {
  const own = findOnPath('redis-server');
  const [file, from] = own ? [own, own] : [await fromMaven(session), `Maven, ${artifact}`];
  const version = /v=(\S+)/.exec((await askVersion(file, '--version')) ?? '')?.[1];
  if (version === undefined) throw missing(`${file} does not run on this machine`);
  return { picked: `Redis ${version} (${from})`, command: (site) => command(file, site) };
}

/** The artifact holds one binary per system; only this machine's is kept. */
async function fromMaven(session: Session): Promise<string> {
  const machine = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const checksum = checksums[machine];
  if (checksum === undefined) throw missing(`${artifact} has no binary for ${machine}`);
  const entry = { name: `redis-${machine}`, checksum };
  const folder = await cached(session, entry, async (filling) => {
    if (!hasMaven()) throw missing('there is neither redis-server nor mvn on PATH');
    await runMaven(session, {
      name: 'fetch-redis',
      doing: 'fetching Redis',
      goal: 'unpack',
      options: [`-Dartifact=${artifact}`, `-DoutputDirectory=${join(filling, 'jar')}`],
      cwd: filling,
    });
    const binaries = readdirSync(join(filling, 'jar'));
    const binary = binaries.find((name) => name.endsWith(`-${machine}`));
    if (binary === undefined) throw missing(`${artifact} has no binary for ${machine}`);
    const file = join(filling, 'redis-server');
    renameSync(join(filling, 'jar', binary), file);
    chmodSync(file, 0o755);
    // Maven leaves marks of its own as well.
    const rest = readdirSync(filling).filter((name) => name !== 'redis-server');
    for (const name of rest) rmSync(join(filling, name), { recursive: true });
  });
  return join(folder, 'redis-server');
}

async function command(file: string, { session, folder, ports }: Site) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, 'users.acl'), redisUsers(session.credentials), { mode: 0o600 });
  const options = {
    bind: '127.0.0.1',
    port: String(ports['port']),
    dir: '.',
    // The gateway refuses to start with any other: eviction forgets single claims unnoticed.
    'maxmemory-policy': 'noeviction',
    // As in docker-compose.yml. Without a limit nobody could see that it fills up.
    maxmemory: '256mb',
    appendonly: 'yes',
    // By default a busy Redis also writes all it has into a snapshot every minute, which is never
    // loaded beside the log.
    save: '',
    aclfile: 'users.acl',
    // A title would overwrite the environment that marks the process as ours.
    'set-proc-title': 'no',
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  return { file, args, cwd: folder, settings: {} };
}

async function recognise(address: string, { pid }: OwnServer): Promise<void> {
  const server = await ask(address, (client) => client.info('server'));
  const [, found] = /^process_id:(\d+)/m.exec(server) ?? [];
  if (Number(found) !== pid) throw new Error(`process ${found} answers instead of ${pid}`);
}

async function ask<Answer>(
  address: string,
  question: (client: Redis) => Promise<Answer>,
): Promise<Answer> {
  const client = new Redis(address, {
    lazyConnect: true,
    connectTimeout: 2_000,
    commandTimeout: 2_000,
    retryStrategy: () => null,
  });
  // The connect call below reports it; without a listener the same error would be printed as well.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await question(client);
  } finally {
    client.disconnect();
  }
}

function missing(because: string): Error {
  return missingPart({
    title: 'Redis',
    because,
    install:
      'redis-server 6.2 or newer (Debian: apt install redis-server; macOS: brew install redis), or Maven and Java 17 to fetch it with',
    variable: 'REDIS_URL',
    example: 'redis://127.0.0.1:6379',
  });
}
