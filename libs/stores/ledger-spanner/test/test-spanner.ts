import { type Cleanup, testNamespace } from '@triplock/testing';
import { openSpanner, type SpannerDatabase } from '../spanner/database.ts';
import {
  createInEmulator,
  dropFromEmulator,
  migrateSpanner,
  spannerMigrationSets,
} from '../spanner/schema.ts';
import { testSpanner } from './emulator.ts';

/** A migrated Spanner database of one test's own. */
export type TestSpanner = {
  /** Its full name. */
  database: string;
  emulatorHost: string;
  /** Opens it once more, as another process would; closed after the test. */
  open(): Promise<SpannerDatabase>;
};

/**
 * Two that race are a race. The emulator runs one transaction at a time and aborts the others, so
 * that of many most of the time goes into aborting one another.
 */
const transactionsMax = 2;

/** Databases of this process that no test uses now: empty, with every migration applied. */
const unused: string[] = [];
const made: string[] = [];

// Each before what it lies in.
const tables = [
  ...['entries', 'dispute_ends', 'disputes', 'transactions', 'outbox', 'provider_events'],
  ...['outbox_leases', 'outbox_owners', 'outbox_horizon'],
];

/**
 * Gives a test an empty database in the emulator with every migration applied. Making one takes the
 * emulator ten times as long as emptying one, so the next test of this process gets the same; all
 * are dropped when the process ends.
 *
 * @param use `changed`: the test changes the schema, and its database is not used again.
 */
export async function createTestSpanner(
  test: Cleanup,
  use: 'emptied' | 'changed' = 'emptied',
): Promise<TestSpanner> {
  const emulatorHost = await testSpanner();
  const database = (use === 'emptied' && unused.pop()) || (await make(emulatorHost));
  const address = { database, emulatorHost };
  const opened: SpannerDatabase[] = [];
  test.after(async () => {
    await Promise.all(opened.map((each) => each.close()));
    if (use === 'changed') return;
    await empty(address);
    unused.push(database);
  });
  return {
    ...address,
    open: async () => {
      const spanner = await openSpanner({ ...address, transactionsMax });
      opened.push(spanner);
      return spanner;
    },
  };
}

async function make(emulatorHost: string): Promise<string> {
  const database = `projects/triplock/instances/tests/databases/${testNamespace()}`;
  const address = { database, emulatorHost };
  await createInEmulator(address);
  if (made.length === 0) process.once('beforeExit', () => void dropAll(emulatorHost));
  made.push(database);
  await migrateSpanner(address, spannerMigrationSets);
  return database;
}

async function empty(address: { database: string; emulatorHost: string }): Promise<void> {
  const spanner = await openSpanner(address);
  try {
    await spanner.transaction(async (tx) => {
      tx.write(...tables.map((table) => ({ kind: 'deleteAll' as const, table })));
    });
  } finally {
    await spanner.close();
  }
}

async function dropAll(emulatorHost: string): Promise<void> {
  await Promise.all(made.map((database) => dropFromEmulator({ database, emulatorHost })));
}
