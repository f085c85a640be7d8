import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { republishingConformance, type FilledOutbox } from '@triplock/ledger/test';
import { createTestDatabase, testSize } from '@triplock/testing';
import { parseSince, republishEvents } from './republish.ts';
import { openOperator } from './test/run-operator.ts';

const runOperator = openOperator({ after });

republishingConformance('PostgreSQL', {
  // More than one batch; `EVENTS=100000` takes minutes and says how it went.
  size: { eventsCount: testSize('EVENTS', 1_500), parkedEvery: 50 },
  open: inPostgres,
  runOperator,
});

async function inPostgres(context: TestContext): Promise<FilledOutbox> {
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
