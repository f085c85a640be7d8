import { createHash, createHmac } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

/** One owner's numbered SQL files and the schema they run in. */
export type MigrationSet = {
  /** Names the set in the record, e.g. `ledger`; two sets may share a schema. */
  owner: string;
  /** `search_path` while the files run, for files that name their tables without a schema. */
  schema: string;
  /**
   * A folder of `NNNN-name.sql`. The first one, `0001-baseline.sql`, is the whole schema; until the
   * first release it is edited, and afterwards others follow it and no file changes any more.
   */
  folder: URL;
};

/** A file that was run by this call. */
export type AppliedMigration = { owner: string; file: string };

const forget = 'forget its data (on this machine: npm run down -- --volumes)';

/** The database is of another version than this code. One sentence that says what to do. */
export class OtherVersionError extends Error {
  override name = 'OtherVersionError';

  /** A migration ran here that no baseline leads on from. */
  static beforeBaseline(owner: string, file: string): OtherVersionError {
    return new OtherVersionError(
      `the database was made by an older version (migration ${owner}/${file}), from which nothing leads to this one: take an empty database, or ${forget}`,
    );
  }

  /** A migration ran here that this code does not have. */
  static newerDatabase(owner: string, file: string): OtherVersionError {
    return new OtherVersionError(
      `the database has migration ${owner}/${file}, which this version does not know: run a newer version, or ${forget}`,
    );
  }

  /** A migration ran here that was another one. */
  static changedFile(owner: string, file: string): OtherVersionError {
    return new OtherVersionError(
      `migration ${owner}/${file} was changed after it ran here: add a new file instead, or ${forget}`,
    );
  }
}

/** How a migration waits for a table that others use. */
export type LockPatience = {
  /** How long one try waits. Everyone who comes to the table after it waits as long. */
  waitMs: number;
  /** Between two tries, in which they go on. */
  restMs: number;
  triesMax: number;
};

// Any constant works as long as every migrator of the database uses it.
const migrationLock = 7_240_511_803;
const lockNotAvailable = '55P03';
const usualPatience: LockPatience = { waitMs: 2_000, restMs: 3_000, triesMax: 24 };

/**
 * Brings a database up to the newest migration, each file in a transaction of its own, under an
 * advisory lock so that one migrator waits for the other. Run again, it does nothing. The lock is
 * the transaction's: one of the session would stay behind in a pooler, which gives the session to
 * others, and every later migrator would wait for ever.
 *
 * A change of a table waits behind the longest transaction that uses it, and everybody else behind
 * the change. So it waits for a moment only, lets the others through, and tries again.
 *
 * @throws OtherVersionError when an applied file was changed or is missing, or the baseline was not
 * applied: the database is then of another version than this code, and nothing is touched.
 */
export async function migrate(
  databaseUrl: string,
  sets: readonly MigrationSet[],
  patience: LockPatience = usualPatience,
): Promise<AppliedMigration[]> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'migrate' });
  // The server ends the session of one that stood still; its next statement says so.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await inTurn(client, async () => {
      await client.query(`
        CREATE SCHEMA IF NOT EXISTS migrations;
        CREATE TABLE IF NOT EXISTS migrations.applied (
          owner text NOT NULL, file text NOT NULL, sha256 text NOT NULL,
          applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (owner, file)
        );`);
    });
    const applied: AppliedMigration[] = [];
    for (const set of sets) applied.push(...(await migrateSet(client, set, patience)));
    return applied;
  } finally {
    await client.end();
  }
}

/**
 * A role's password, derived from the superuser's, so that everybody who sets up databases on one
 * server comes to the same and none locks another's services out: roles belong to the server, not
 * to a database.
 *
 * @throws Error when the superuser has no password: what follows from the rest of a URL is no
 * secret.
 */
export function rolePassword(superuserUrl: string, role: string): string {
  const secret = decodeURIComponent(new URL(superuserUrl).password);
  if (secret === '') {
    const why = "no role's password can be derived from it";
    throw new Error(`the URL of the database's owner has no password, and ${why}: give it one`);
  }
  return createHmac('sha256', secret).update(role).digest('base64url');
}

async function migrateSet(
  client: pg.Client,
  set: MigrationSet,
  patience: LockPatience,
): Promise<AppliedMigration[]> {
  const { rows } = await client.query<{ file: string; sha256: string }>(
    'SELECT file, sha256 FROM migrations.applied WHERE owner = $1',
    [set.owner],
  );
  const recorded = new Map(rows.map((row) => [row.file, row.sha256]));
  const files = (await readdir(set.folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  refuseOtherVersion(set.owner, [...recorded.keys()], files);

  const applied: AppliedMigration[] = [];
  for (const file of files) {
    const sql = await readFile(new URL(`${set.folder.href.replace(/\/?$/, '/')}${file}`), 'utf8');
    const sha256 = createHash('sha256').update(sql).digest('hex');
    if (recorded.get(file) === sha256) continue;
    if (recorded.has(file)) throw OtherVersionError.changedFile(set.owner, file);
    const outcome = await applyPatiently(client, { set, file, sql, sha256 }, patience);
    if (outcome === 'applied') applied.push({ owner: set.owner, file });
  }
  return applied;
}

type Migration = { set: MigrationSet; file: string; sql: string; sha256: string };

async function applyPatiently(
  client: pg.Client,
  migration: Migration,
  { waitMs, restMs, triesMax }: LockPatience,
): Promise<'applied' | 'was there'> {
  const { set, file } = migration;
  for (let tries = 1; ; tries += 1) {
    try {
      return await applyFile(client, migration, waitMs);
    } catch (cause) {
      if (cause instanceof OtherVersionError) throw cause;
      const name = `migration ${set.owner}/${file}`;
      if ((cause as { code?: string }).code !== lockNotAvailable) {
        throw new Error(`${name} failed and was rolled back`, { cause });
      }
      if (tries === triesMax) {
        const why = `${name} got no lock in ${tries} tries and was rolled back`;
        throw new Error(`${why}: end the transaction that holds its table, and run it again`, {
          cause,
        });
      }
      await delay(restMs);
    }
  }
}

/** Another migrator may have run the file while this one waited for its turn. */
async function applyFile(
  client: pg.Client,
  { set, file, sql, sha256 }: Migration,
  lockWaitMs: number,
): Promise<'applied' | 'was there'> {
  return inTurn(client, async () => {
    const { rows } = await client.query<{ sha256: string }>(
      'SELECT sha256 FROM migrations.applied WHERE owner = $1 AND file = $2',
      [set.owner, file],
    );
    if (rows[0]?.sha256 === sha256) return 'was there';
    if (rows[0] !== undefined) throw OtherVersionError.changedFile(set.owner, file);
    await client.query(
      `SELECT set_config('search_path', $1, true), set_config('lock_timeout', $2, true)`,
      [set.schema, String(lockWaitMs)],
    );
    await client.query(sql);
    await client.query('INSERT INTO migrations.applied (owner, file, sha256) VALUES ($1, $2, $3)', [
      set.owner,
      file,
      sha256,
    ]);
    return 'applied';
  });
}

/** A migrator that stands still would keep everybody from the table that it changes. */
const idleInTransactionMs = 10_000;

/** Runs `work` in a transaction of its own, once no other migrator is in one. */
async function inTurn<Result>(client: pg.Client, work: () => Promise<Result>): Promise<Result> {
  await client.query('BEGIN');
  try {
    await client.query(
      `SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('lock_timeout', '0', true)`,
      [String(idleInTransactionMs)],
    );
    await client.query('SELECT pg_advisory_xact_lock($1)', [migrationLock]);
    const result = await work();
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

function refuseOtherVersion(owner: string, applied: readonly string[], files: readonly string[]) {
  const baseline = files[0];
  if (applied.length > 0 && baseline !== undefined && !applied.includes(baseline)) {
    throw OtherVersionError.beforeBaseline(owner, applied[0]!);
  }
  const unknown = applied.find((file) => !files.includes(file));
  if (unknown !== undefined) throw OtherVersionError.newerDatabase(owner, unknown);
}
