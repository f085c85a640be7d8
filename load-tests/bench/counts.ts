import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import { openForCommand } from '@triplock/postgres';

/** What PostgreSQL did for one role. */
export type RoleCounts = {
  /** Trips: BEGIN and COMMIT are statements too. */
  statements: number;
  /** Calls of the one that wrote most: how many batches there were. */
  batches: number;
  walBytes: number;
};

/** What servers were asked for, which depends on no machine's speed. */
export type ServerCounts = {
  /** Scripts that the claim store ran, reads of its sockets (trips), and bytes that it holds. */
  redis: { scripts: number; reads: number; bytes: number };
  /** Batches in the log of the topic of accepted payments, records in them, and their bytes. */
  kafka: { batches: number; records: number; bytes: number };
  /** By role, without `triplock_`; empty where the server has no pg_stat_statements. */
  roles: Readonly<Record<string, RoleCounts>>;
  /** All of the write-ahead log. */
  walBytes: number;
};

/** All that was counted since the servers started. */
export type CountReading = Omit<ServerCounts, 'roles'> & { statements: readonly Statement[] };

type Statement = { role: string; id: string; calls: number; walBytes: number };

/** Reads the counts of a system's own servers; costs them a statement and a command. */
export type CountReader = { read(): Promise<CountReading>; close(): Promise<void> };

const countStatements = `
  SELECT substr(rolname, 10) AS role, queryid::text AS id,
         sum(calls)::float8 AS calls, sum(wal_bytes)::float8 AS "walBytes"
  FROM pg_stat_statements JOIN pg_roles ON oid = userid
  WHERE rolname LIKE 'triplock\\_%' GROUP BY rolname, queryid`;
const countWal = `SELECT (pg_current_wal_lsn() - '0/0')::float8 AS bytes`;

/** Opens it; of a system whose parts are processes of this machine. */
export async function openServerCounts(system: System): Promise<CountReader> {
  const { endpoints, home, names } = system;
  const url = endpoints.postgres;
  const database = openForCommand({ url, applicationName: 'bench', connectionsMax: 1 });
  const [loaded] = await database.query(
    `SELECT 1 WHERE current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'`,
  );
  if (loaded) await database.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
  const log = openLogReader(join(home, 'data', 'kafka', 'log'), names.acceptedTopic);
  return {
    read: async () => {
      const statements = loaded ? await database.query<Statement>(countStatements) : [];
      const [wal] = await database.query<{ bytes: number }>(countWal);
      return {
        redis: await askRedis(endpoints.redis),
        kafka: log.read(),
        statements,
        walBytes: wal!.bytes,
      };
    },
    close: () => database.close(),
  };
}

/** What was counted between two readings. */
export function countsBetween(before: CountReading, after: CountReading): ServerCounts {
  const known = new Map(before.statements.map((each) => [`${each.role} ${each.id}`, each]));
  const grown = after.statements.map((each) => {
    const { calls = 0, walBytes = 0 } = known.get(`${each.role} ${each.id}`) ?? {};
    return { ...each, calls: each.calls - calls, walBytes: each.walBytes - walBytes };
  });
  const roles = [...Map.groupBy(grown, ({ role }) => role)].map(([role, statements]) => {
    const sum = (of: 'calls' | 'walBytes') => statements.reduce((all, each) => all + each[of], 0);
    const writing = statements.toSorted((one, other) => other.walBytes - one.walBytes)[0]!;
    return [role, { statements: sum('calls'), batches: writing.calls, walBytes: sum('walBytes') }];
  });
  return {
    redis: minus(after.redis, before.redis),
    kafka: minus(after.kafka, before.kafka),
    roles: Object.fromEntries(roles) as ServerCounts['roles'],
    walBytes: after.walBytes - before.walBytes,
  };
}

const quietMs = 500;
// A lease that is held on writes a little.
const quietBytes = 16_384;

/** Reads once nothing is written any more: the last mark comes after the last publish. */
export async function readWhenQuiet(reader: CountReader): Promise<CountReading> {
  for (let last = await reader.read(); ;) {
    await delay(quietMs);
    const now = await reader.read();
    const written = ({ statements }: CountReading) =>
      statements.reduce((sum, { walBytes }) => sum + walBytes, 0);
    if (written(now) - written(last) < quietBytes) return now;
    last = now;
  }
}

function minus<Counts extends Record<string, number>>(one: Counts, other: Counts): Counts {
  const names = Object.keys(one) as (keyof Counts)[];
  return Object.fromEntries(names.map((name) => [name, one[name]! - other[name]!])) as Counts;
}

/** INFO by an inline command: no client, so that no other command is counted. */
async function askRedis(url: string): Promise<ServerCounts['redis']> {
  const { hostname, port, username, password } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  const auth = password === '' ? '' : `AUTH ${username || 'default'} ${password}\r\n`;
  socket.write(`${auth}INFO everything\r\nQUIT\r\n`);
  const info = await text(socket);
  if (!info.includes('redis_version:')) throw new Error(`Redis tells nothing of itself: ${info}`);
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const scripts = [...info.matchAll(/^cmdstat_(?:eval|evalsha|fcall)(?:_ro)?:calls=(\d+)/gm)];
  return {
    scripts: scripts.reduce((sum, [, calls]) => sum + Number(calls), 0),
    reads: field('total_reads_processed'),
    bytes: field('used_memory_dataset'),
  };
}

/**
 * Of a record batch (Kafka's protocol guide, "Record Batch"): its length after 12 bytes, its count.
 */
const lengthAt = 8;
const countAt = 57;

/** Reads the heads of a topic's batches from the broker's files, each once. */
function openLogReader(folder: string, topic: string) {
  const positions = new Map<string, number>();
  const counts = { batches: 0, records: 0, bytes: 0 };
  const head = Buffer.alloc(countAt + 4);
  const readFile = (path: string) => {
    const file = openSync(path, 'r');
    try {
      let position = positions.get(path) ?? 0;
      while (readSync(file, head, 0, head.length, position) === head.length) {
        const length = head.readInt32BE(lengthAt);
        if (length === 0) break; // The broker has made the file larger than what is in it.
        position += lengthAt + 4 + length;
        counts.batches += 1;
        counts.bytes += lengthAt + 4 + length;
        counts.records += head.readInt32BE(countAt);
      }
      positions.set(path, position);
    } finally {
      closeSync(file);
    }
  };
  return {
    read: () => {
      const folders = existsSync(folder) ? readdirSync(folder) : [];
      for (const each of folders.filter((name) => new RegExp(`^${topic}-\\d+$`).test(name))) {
        const files = readdirSync(join(folder, each)).filter((name) => name.endsWith('.log'));
        for (const name of files) readFile(join(folder, each, name));
      }
      return { ...counts };
    },
  };
}
