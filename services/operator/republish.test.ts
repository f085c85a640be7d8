import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import {
  commitTimestamp,
  createInEmulator,
  dropFromEmulator,
  migrateSpanner,
  openSpanner,
  spannerMigrationSets,
} from '@triplock/ledger-spanner';
import { deriveId } from '@triplock/payments';
import {
  createTestDatabase,
  createTestSubscription,
  createTestTopic,
  eventually,
  freePort,
  startService,
  testNamespace,
  testSize,
  testSpanner,
  withoutSpanner,
} from '@triplock/testing';
import { parseSince, republishEvents } from './republish.ts';
import { openOperator } from './test/run-operator.ts';

const runOperator = openOperator({ after });

/**
 * How many published events the outbox holds; of some payments one more is parked, and two stand
 * behind that. More than one batch in PostgreSQL, where `EVENTS=100000` takes minutes and says how
 * it went. The emulator looks at every row where Cloud Spanner looks into an index.
 */
const sizes = {
  PostgreSQL: { eventsCount: testSize('EVENTS', 1_500), parkedEvery: 50 },
  Spanner: { eventsCount: testSize('SPANNER_EVENTS', 60), parkedEvery: 20 },
};

type Size = (typeof sizes)['PostgreSQL'];

type Row = { event: string; payment: string; bucket: number; sequence: number; state: State };
type State = 'published' | 'parked' | 'pending';

/** A ledger whose outbox can be filled and looked into. */
type Store = {
  /** Where the operator and the dispatcher find it. */
  settings: Readonly<Record<string, string>>;
  /** Rows of one commit. */
  add(rows: readonly Row[]): Promise<unknown>;
  count(state: State): Promise<number>;
};

async function inPostgres(context: TestContext): Promise<Store> {
  const store = await createTestDatabase(context);
  const owner = store.open();
  return {
    settings: { DATABASE_URL: store.url() },
    add: (rows) =>
      owner.query(
        `INSERT INTO ledger.outbox (event_id, event_type, txn_id, payment_id, partner_id, bucket,
           sequence, payload, traceparent, state, parked_reason, published_at, published_epoch)
         SELECT event, 'payment.succeeded', payment, payment, 'acme', bucket, sequence, '{}', 't',
           state, CASE state WHEN 'parked' THEN 'too large' END,
           CASE state WHEN 'published' THEN now() - interval '1 hour' END,
           CASE state WHEN 'published' THEN 0 END
         FROM jsonb_to_recordset($1) AS row
           (event uuid, payment uuid, bucket smallint, sequence integer, state text)`,
        [JSON.stringify(rows)],
      ),
    count: async (state) => {
      const sql = 'SELECT count(*)::integer AS events FROM ledger.outbox WHERE state = $1';
      const [row] = await owner.query<{ events: number }>(sql, [state]);
      return row!.events;
    },
  };
}

async function inSpanner(context: TestContext): Promise<Store> {
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

/** Fills the outbox, and returns the parked events. */
async function fill({ add }: Store, { eventsCount, parkedEvery }: Size): Promise<string[]> {
  const event = (n: number, sequence: number, state: State): Row => {
    const payment = deriveId('payment', 'acme', `republished-${n}`);
    const id = deriveId('event', payment, String(sequence));
    return { event: id, payment, bucket: n % 64, sequence, state };
  };
  const every = Array.from({ length: eventsCount }, (_, n) => n);
  const some = every.filter((n) => n % parkedEvery === 0);
  const parked = some.map((n) => event(n, 2, 'parked'));
  // One commit after the other, because that is their order.
  for (const rows of [
    every.map((n) => event(n, 1, 'published')),
    parked,
    some.map((n) => event(n, 3, 'pending')),
    // Published when the one before was not parked yet; given out again it stands behind it.
    some.map((n) => event(n, 4, 'published')),
  ]) {
    for (let from = 0; from < rows.length; from += 250) await add(rows.slice(from, from + 250));
  }
  return parked.map((row) => row.event);
}

for (const [name, open] of [
  ['PostgreSQL', inPostgres],
  ['Spanner', inSpanner],
] as const) {
  test(
    `republishing from ${name} waits for no event that a parked one holds up, names them, and its redrive frees them`,
    { skip: name === 'Spanner' && withoutSpanner() },
    async (context) => {
      const store = await open(context);
      const parked = await fill(store, sizes[name]);
      const { eventsCount } = sizes[name];
      const [events, accepted, deadLetters, told] = await Promise.all([
        createTestSubscription(context),
        createTestTopic(context),
        createTestTopic(context),
        createTestTopic(context),
      ]);
      const settings = {
        ...store.settings,
        PUBSUB_PROJECT_ID: events.projectId,
        PUBSUB_EMULATOR_HOST: events.emulatorHost,
        EVENTS_TOPIC: events.topic,
        KAFKA_BROKERS: accepted.brokers.join(','),
        ACCEPTED_TOPIC: accepted.topic,
        DEAD_LETTER_TOPIC: deadLetters.topic,
        TOLD_TOPIC: told.topic,
      };
      const dispatcher = startService(
        context,
        new URL('../outbox-dispatcher/main.ts', import.meta.url),
        { ...settings, TRIPLOCK_MODE: 'test', ADMIN_PORT: String(await freePort()) },
      );
      await dispatcher.ready();

      const since = new Date(Date.now() - 86_400_000).toISOString();
      const began = performance.now();
      const run = await runOperator(
        ['republish', '--since', since, '--by', 'ada', '--json'],
        settings,
      );
      const seconds = (performance.now() - began) / 1_000;
      assert.equal(run.code, 0, run.stderr);
      const { republished, held } = JSON.parse(run.stdout) as { republished: number; held: number };
      context.diagnostic(`${run.stderr}${republished} events in ${seconds.toFixed(1)} s`);
      assert.deepEqual(
        { republished, held },
        { republished: eventsCount + parked.length, held: 3 * parked.length },
      );
      assert.deepEqual(
        [await store.count('published'), await store.count('pending'), await store.count('parked')],
        [eventsCount, 2 * parked.length, parked.length],
      );

      // What is held makes nobody look for a dispatcher, and is seen for as long as it is.
      const shown = Object.entries({ held_rows: held, pending_rows: 0, oldest_seconds: 0 }).map(
        ([name, value]) => new RegExp(`triplock_outbox_${name}\\{[^}]*\\} ${value}\n`),
      );
      await eventually(
        async () => {
          const text = await (await dispatcher.admin('/metrics')).text();
          return shown.every((figure) => figure.test(text));
        },
        { withinMs: 30_000, what: 'the metrics' },
      );

      const redrive = ['dead-letters', 'redrive', `outbox:${parked[0]!}`, '--by', 'ada'];
      const redriven = await runOperator([...redrive, '--why', 'mended'], settings);
      assert.equal(redriven.code, 0, redriven.stderr);
      await eventually(async () => (await store.count('published')) === eventsCount + 3, {
        withinMs: 30_000,
        what: 'the redriven event and those behind it',
      });
    },
  );
}

test('a batch is given out only after the one before was published, until none is left', async () => {
  const batches = [3, 2, 0];
  const steps: string[] = [];
  let rows = 0;
  const total = await republishEvents(
    {
      outbox: {
        republish: () => {
          assert.equal(rows, 0);
          rows = batches.shift()!;
          steps.push(`gave ${rows}`);
          return Promise.resolve(rows);
        },
        pending: () => Promise.resolve({ rows, oldestSeconds: rows, held: 7 }),
      },
      rest: () => Promise.resolve((rows -= 1)),
      progress: (state) => steps.push(`${state.republished} given, ${state.rows} wait`),
    },
    { since: new Date(0), until: new Date(1) },
  );
  assert.deepEqual(total, { republished: 5, held: 7 });
  assert.deepEqual(steps, [
    'gave 3',
    '3 given, 3 wait',
    '3 given, 2 wait',
    '3 given, 1 wait',
    'gave 2',
    '5 given, 2 wait',
    '5 given, 1 wait',
    'gave 0',
  ]);
});

const now = new Date('2026-11-21T12:00:00Z');

test('a time or a day that has begun is taken', () => {
  assert.equal(+parseSince('2026-11-21T10:00:00+02:00', now), Date.UTC(2026, 10, 21, 8));
  assert.equal(+parseSince('2026-11-20', now), Date.UTC(2026, 10, 20));
});

test('what is no time, has no zone or lies ahead is refused', () => {
  assert.throws(() => parseSince(undefined, now), /--since is missing: a time/);
  for (const text of ['', 'yesterday', '2026-13-01', '2026-11-20T10:00:00', '1']) {
    assert.throws(() => parseSince(text, now), /--since takes a time/);
  }
  assert.throws(() => parseSince('2026-11-22', now), /lies ahead/);
});
