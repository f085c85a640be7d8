import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { republishingConformance, type FilledOutbox } from '@triplock/ledger/test';
import {
  compileCache,
  createTestDatabase,
  openCommands,
  testNamespace,
  testSize,
  type Ran,
} from '@triplock/testing';
import { openSpanner } from './spanner/database.ts';
import {
  createInEmulator,
  dropFromEmulator,
  migrateSpanner,
  spannerMigrationSets,
} from './spanner/schema.ts';
import { commitTimestamp } from './spanner/values.ts';
import { testSpanner } from './test/emulator.ts';

// What the operators' commands do to a ledger in Spanner.

type Settings = Readonly<Record<string, string>>;

const environmentOf = (settings: Settings) => ({
  ...compileCache(),
  NO_COLOR: '1',
  TRIPLOCK_MODE: 'test',
  ...settings,
});
const module = new URL('../../../services/operator/operate.ts', import.meta.url);
const run = openCommands({ after }, { module, name: 'operateByWords' }, environmentOf({}));
const runOperator = (words: readonly string[], settings: Settings): Promise<Ran> =>
  run(words, environmentOf(settings));

test('migrate brings a ledger in Spanner up to date as well', async (t) => {
  const [store, emulatorHost] = await Promise.all([createTestDatabase(t), testSpanner()]);
  const database = `projects/triplock/instances/tests/databases/${testNamespace()}`;
  const spannerDatabase = { database, emulatorHost };
  await createInEmulator(spannerDatabase);
  t.after(() => dropFromEmulator(spannerDatabase));
  await migrateSpanner(spannerDatabase, spannerMigrationSets);
  const spanner = await openSpanner(spannerDatabase);
  t.after(() => spanner.close());
  // As if nothing had been run: each statement of a migration does no harm a second time.
  await spanner.transaction(async (tx) => tx.write({ kind: 'deleteAll', table: 'migrations' }));
  const { code, stdout, stderr } = await runOperator(['migrate'], {
    DATABASE_URL: store.url(),
    SPANNER_DATABASE: spannerDatabase.database,
    SPANNER_EMULATOR_HOST: spannerDatabase.emulatorHost,
  });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^postgres: ran 0 migrations\n/);
  assert.match(stdout, /^spanner: ran [1-9]\d* migrations\n/m);
});

republishingConformance('Spanner', {
  // The emulator looks at every row where Cloud Spanner looks into an index.
  size: { eventsCount: testSize('SPANNER_EVENTS', 60), parkedEvery: 20 },
  open: inSpanner,
  runOperator,
});

async function inSpanner(context: TestContext): Promise<FilledOutbox> {
  const [store, emulatorHost] = await Promise.all([createTestDatabase(context), testSpanner()]);
  const database = `projects/triplock/instances/tests/databases/${testNamespace()}`;
  await createInEmulator({ database, emulatorHost });
  context.after(() => dropFromEmulator({ database, emulatorHost }));
  await migrateSpanner({ database, emulatorHost }, spannerMigrationSets);
  const spanner = await openSpanner({ database, emulatorHost, callLimitMs: 60_000 });
  context.after(() => spanner.close());
  return {
    settings: {
      DATABASE_URL: store.url(),
      LEDGER_STORE: 'spanner',
      SPANNER_DATABASE: database,
      SPANNER_EMULATOR_HOST: emulatorHost,
    },
    add: (rows) =>
      spanner.transaction(async (tx) => {
        for (const { event, payment, state, ...numbers } of rows) {
          const row = {
            event_id: event,
            event_type: 'payment.succeeded',
            txn_id: payment,
            ...numbers,
            payment_id: payment,
            partner_id: 'acme',
            payload: '{}',
            traceparent: 't',
            state,
            ...(state === 'parked' && { parked_reason: 'too large' }),
            ...(state === 'published' && { published_epoch: 0 }),
            ...(state === 'published' && { published_at: new Date(Date.now() - 3_600_000) }),
            created_at: commitTimestamp,
            changed_at: commitTimestamp,
          };
          tx.write({ kind: 'insert', table: 'outbox', row });
        }
      }),
    count: async (state) => {
      const sql = 'SELECT COUNT(*) AS events FROM outbox WHERE state = @state';
      const [row] = await spanner.query<{ events: bigint }>(sql, { state });
      return Number(row!.events);
    },
  };
}
