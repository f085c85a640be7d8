import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';

/** One owner's numbered SQL files and the schema they run in. */
export type MigrationSet = {
  /** Names the set in the record, e.g. `ledger`; two sets may share a schema. */
  owner: string;
  /** `search_path` while the files run, for files that name their tables without a schema. */
  schema: string;
  /** A folder of `NNNN-name.sql`. */
  folder: URL;
};

/** A file that was run by this call. */
export type AppliedMigration = { owner: string; file: string };

/** The database is of another version than this code. One sentence that says what to do. */
export class OtherVersionError extends Error {
  override name = 'OtherVersionError';
}

// Any constant works as long as every migrator of the database uses it.
const migrationLock = 7_240_511_803;

/**
 * Brings a database up to the newest migration, each file in a transaction of its own, under an
 * advisory lock so that two migrators take turns. Run again, it does nothing.
 *
 * @throws OtherVersionError when an applied file was changed or is missing: the database is then of another version
 * than this code, and nothing is touched.
 */
export async function migrate(
  databaseUrl: string,
  sets: readonly MigrationSet[],
): Promise<AppliedMigration[]> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'migrate' });
  await client.connect();
  try {
    await client.query('SELECT pg_advisory_lock($1)', [migrationLock]);
    await client.query(`
      CREATE SCHEMA IF NOT EXISTS migrations;
      CREATE TABLE IF NOT EXISTS migrations.applied (
        owner text NOT NULL, file text NOT NULL, sha256 text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (owner, file)
      );`);
    const applied: AppliedMigration[] = [];
    for (const set of sets) applied.push(...(await migrateSet(client, set)));
    return applied;
  } finally {
    await client.end();
  }
}

async function migrateSet(client: pg.Client, set: MigrationSet): Promise<AppliedMigration[]> {
  const { rows } = await client.query<{ file: string; sha256: string }>(
    'SELECT file, sha256 FROM migrations.applied WHERE owner = $1',
    [set.owner],
  );
  const recorded = new Map(rows.map((row) => [row.file, row.sha256]));
  const files = (await readdir(set.folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  const unknown = [...recorded.keys()].filter((file) => !files.includes(file));
  if (unknown.length > 0) throw olderCode(set, unknown[0]!);

  const applied: AppliedMigration[] = [];
  for (const file of files) {
    const sql = await readFile(new URL(`${set.folder.href.replace(/\/?$/, '/')}${file}`), 'utf8');
    const sha256 = createHash('sha256').update(sql).digest('hex');
    if (recorded.get(file) === sha256) continue;
    if (recorded.has(file)) throw changedFile(set, file);
    await applyFile(client, { set, file, sql, sha256 });
    applied.push({ owner: set.owner, file });
  }
  return applied;
}

async function applyFile(
  client: pg.Client,
  migration: { set: MigrationSet; file: string; sql: string; sha256: string },
): Promise<void> {
  const { set, file, sql, sha256 } = migration;
  await client.query('BEGIN');
  try {
    await client.query(`SELECT set_config('search_path', $1, true)`, [set.schema]);
    await client.query(sql);
    await client.query('INSERT INTO migrations.applied (owner, file, sha256) VALUES ($1, $2, $3)', [
      set.owner,
      file,
      sha256,
    ]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw new Error(`migration ${set.owner}/${file} failed and was rolled back`, { cause: error });
  }
}

function olderCode(set: MigrationSet, file: string): OtherVersionError {
  return new OtherVersionError(
    `the database has migration ${set.owner}/${file}, which this version does not know: run a newer version, or forget the data`,
  );
}

function changedFile(set: MigrationSet, file: string): OtherVersionError {
  return new OtherVersionError(
    `migration ${set.owner}/${file} was changed after it ran here: add a new file instead, or forget the data`,
  );
}
