import { createHash, createHmac } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import type { Session } from '../session.ts';
import type { Fetched, OwnServer, Part, Site } from './part.ts';
import { chooseRedisServer, nameServer } from './redis-servers.ts';

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
  const server = await chooseRedisServer(session);
  const picked = `${nameServer(server)} (${server.from})`;
  return { picked, command: (site) => command(server.file, site) };
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
    // As commands, which every server reads, and not in the form of one server's snapshots:
    // whatever this machine has at the next start goes on with what is here.
    'aof-use-rdb-preamble': 'no',
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
  const { Redis } = await import('ioredis');
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
