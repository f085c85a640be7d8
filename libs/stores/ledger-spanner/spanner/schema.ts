import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { OtherVersionError } from '@triplock/postgres';
import { backoffMs } from '@triplock/runtime';
import {
  type DatabaseAdminClient,
  openDatabaseAdmin,
  openInstanceAdmin,
  parseDatabaseName,
  type SpannerAddress,
} from './calls.ts';
import { openSpanner, type SpannerDatabase } from './database.ts';
import { status, statusOf } from './errors.ts';
import { commitTimestamp } from './values.ts';

/** A file that was run by this call. */
export type AppliedSpannerMigration = { owner: string; file: string };

const recordTable = `
CREATE TABLE IF NOT EXISTS migrations (
  owner STRING(64) NOT NULL,
  file STRING(255) NOT NULL,
  sha256 STRING(64) NOT NULL,
  applied_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (owner, file)`;

/**
 * Brings a database up to the newest migration. Run again, it does nothing.
 *
 * Spanner changes a schema statement by statement and not all or nothing, so each statement of a
 * file has to be one that does no harm a second time (`IF NOT EXISTS`): a file that ended half way
 * runs again whole. Spanner makes one schema change at a time, so of two migrators at once the
 * later one finds everything there.
 *
 * @throws OtherVersionError when an applied file was changed or is missing; nothing is touched.
 */
export async function migrateSpanner(
  address: SpannerAddress,
  sets: readonly SpannerMigrationSet[],
): Promise<AppliedSpannerMigration[]> {
  const admin = await openDatabaseAdmin(address);
  const database = await openSpanner({ ...address, sessionsMax: 1 });
  try {
    await changeSchema(admin, address, [recordTable]);
    const applied: AppliedSpannerMigration[] = [];
    for (const set of sets) {
      for (const migration of await openMigrations(database, set)) {
        await changeSchema(admin, address, statementsOf(migration.ddl));
        await record(database, migration);
        applied.push({ owner: migration.owner, file: migration.file });
      }
    }
    return applied;
  } finally {
    await database.close();
    await admin.close();
  }
}

/** The statements of a file: what lies between semicolons, without comment lines. */
function statementsOf(ddl: string): string[] {
  return ddl
    .replaceAll(/^\s*--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

type Migration = AppliedSpannerMigration & { ddl: string; sha256: string };

/** The files of a set that have not run here yet, in order. */
async function openMigrations(
  database: SpannerDatabase,
  { owner, folder }: SpannerMigrationSet,
): Promise<Migration[]> {
  const rows = await database.query<{ file: string; sha256: string }>(
    'SELECT file, sha256 FROM migrations WHERE owner = @owner',
    { owner },
  );
  const recorded = new Map(rows.map((row) => [row.file, row.sha256]));
  const files = (await readdir(folder)).filter((name) => /^\d{4}-.+\.sql$/.test(name)).sort();
  refuseOtherSchema(owner, [...recorded.keys()], files);
  const open: Migration[] = [];
  for (const file of files) {
    const ddl = await readFile(new URL(file, `${folder.href.replace(/\/?$/, '/')}`), 'utf8');
    const sha256 = createHash('sha256').update(ddl).digest('hex');
    const before = recorded.get(file);
    if (before === undefined) open.push({ owner, file, ddl, sha256 });
    else if (before !== sha256) {
      throw OtherVersionError.changedFile(owner, file);
    }
  }
  return open;
}

function refuseOtherSchema(owner: string, applied: readonly string[], files: readonly string[]) {
  if (applied.length > 0 && !applied.includes(files[0]!)) {
    throw OtherVersionError.beforeBaseline(owner, applied[0]!);
  }
  const unknown = applied.find((file) => !files.includes(file));
  if (unknown !== undefined) throw OtherVersionError.newerDatabase(owner, unknown);
}

async function changeSchema(
  admin: DatabaseAdminClient,
  { database }: SpannerAddress,
  statements: string[],
): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const [operation] = await admin.updateDatabaseDdl({ database, statements });
      await operation.promise();
      return;
    } catch (error) {
      if (!isAnotherUnderWay(error) || attempt === attemptsMax) throw error;
      const waitMs = backoffMs(attempt, { firstMs: 50, maxMs: 1_000 });
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
}

// Half a minute. Spanner itself lets schema changes wait in line; the emulator refuses the second.
const attemptsMax = 40;

function isAnotherUnderWay(error: unknown): boolean {
  const isRefused = statusOf(error) === status.failedPrecondition;
  return isRefused && /concurrent schema change/i.test((error as Error).message);
}

function record(database: SpannerDatabase, { owner, file, sha256 }: Migration): Promise<void> {
  const row = { owner, file, sha256, applied_at: commitTimestamp };
  return database.transaction(async (tx) => {
    tx.write({ kind: 'insertOrUpdate', table: 'migrations', row });
  });
}

/** One owner's numbered DDL files. */
export type SpannerMigrationSet = {
  /** Names the set in the record, e.g. `ledger`. */
  owner: string;
  /** A folder of `NNNN-name.sql`. */
  folder: URL;
};

/** Every owner's migrations of a ledger's database, in the order they run. */
export const spannerMigrationSets: readonly SpannerMigrationSet[] = [
  { owner: 'ledger', folder: new URL('../migrations/', import.meta.url) },
];

/** An emulator, which anybody may make instances in. */
export type EmulatorAddress = SpannerAddress & { emulatorHost: string };

/** Throws when the emulator does not answer. */
export async function pingEmulator(emulatorHost: string): Promise<void> {
  const admin = await openInstanceAdmin({ database: anyDatabase, emulatorHost });
  try {
    await admin.listInstanceConfigs({ parent: 'projects/any' }, { timeout: 2_000, retry: null });
  } finally {
    await admin.close();
  }
}

const anyDatabase = 'projects/any/instances/any/databases/any';

/**
 * Makes the database in the emulator, and the instance that it is in, unless they are there. Says
 * whether this call made the database.
 */
export async function createInEmulator(address: EmulatorAddress): Promise<{ made: boolean }> {
  const { project, instance, database } = parseDatabaseName(address.database);
  const instances = await openInstanceAdmin(address);
  const databases = await openDatabaseAdmin(address);
  try {
    await unlessThere(async () => {
      const config = `projects/${project}/instanceConfigs/emulator-config`;
      const [operation] = await instances.createInstance({
        parent: `projects/${project}`,
        instanceId: instance,
        instance: { config, displayName: instance, nodeCount: 1 },
      });
      await operation.promise();
    });
    const made = await unlessThere(async () => {
      const [operation] = await databases.createDatabase({
        parent: `projects/${project}/instances/${instance}`,
        createStatement: `CREATE DATABASE \`${database}\``,
      });
      await operation.promise();
    });
    return { made };
  } finally {
    await Promise.all([instances.close(), databases.close()]);
  }
}

/** Whether the database is there. */
export async function isInEmulator(address: EmulatorAddress): Promise<boolean> {
  const databases = await openDatabaseAdmin(address);
  try {
    await databases.getDatabase({ name: address.database });
    return true;
  } catch (error) {
    // Also where its instance is not there.
    if (statusOf(error) !== status.notFound) throw error;
    return false;
  } finally {
    await databases.close();
  }
}

/** Drops the database again. */
export async function dropFromEmulator(address: EmulatorAddress): Promise<void> {
  const databases = await openDatabaseAdmin(address);
  try {
    await databases.dropDatabase({ database: address.database });
  } finally {
    await databases.close();
  }
}

async function unlessThere(create: () => Promise<void>): Promise<boolean> {
  try {
    await create();
    return true;
  } catch (error) {
    if (statusOf(error) !== status.alreadyExists) throw error;
    return false;
  }
}
