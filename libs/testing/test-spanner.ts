import {
  createInEmulator,
  dropFromEmulator,
  migrateSpanner,
  openSpanner,
  spannerMigrationSets,
  type SpannerDatabase,
} from '@triplock/spanner';
import { testSpanner } from './endpoints.ts';
import type { Cleanup } from './test-database.ts';
import { testNamespace } from './test-namespace.ts';

/** A migrated Spanner database of one test's own. */
export type TestSpanner = {
  /** Its full name. */
  database: string;
  emulatorHost: string;
  /** Opens it once more, as another process would; closed after the test. */
  open(): Promise<SpannerDatabase>;
};

/** Makes a fresh database in the emulator with every migration applied, and drops it after the test. */
export async function createTestSpanner(test: Cleanup): Promise<TestSpanner> {
  const emulatorHost = await testSpanner();
  const database = `projects/triplock/instances/tests/databases/${testNamespace()}`;
  const place = { database, emulatorHost };
  await createInEmulator(place);
  await migrateSpanner(place, spannerMigrationSets);
  const opened: SpannerDatabase[] = [];
  test.after(async () => {
    await Promise.all(opened.map((each) => each.close()));
    await dropFromEmulator(place);
  });
  return {
    ...place,
    open: async () => {
      const spanner = await openSpanner(place);
      opened.push(spanner);
      return spanner;
    },
  };
}
