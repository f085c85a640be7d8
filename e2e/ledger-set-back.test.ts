import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SpannerDatabase, Write } from '@triplock/ledger-spanner';
import { eventually } from '@triplock/testing';
import { openSetBack } from './test/set-back.ts';
import { command, onTheSystem, upSystem } from './test/system.ts';
import { type Answer, newKey } from './test/partner.ts';

const on = onTheSystem();

type SpannerRow = Readonly<Record<string, string | bigint | boolean | null>>;

/**
 * Remembers every row of a ledger in Spanner. What it returns puts the ledger back to that, as a
 * restore does: nothing that came since is there.
 */
async function rememberSpanner(spanner: SpannerDatabase): Promise<() => Promise<void>> {
  const columns = await spanner.query<{ in_table: string; name: string; type: string }>(`
    SELECT table_name AS in_table, column_name AS name, spanner_type AS type
    FROM information_schema.columns
    WHERE table_schema = '' AND is_generated = 'NEVER'
    ORDER BY table_name, ordinal_position`);
  const tables = [...new Set(columns.map(({ in_table }) => in_table))].map((table) => {
    const own = columns.filter(({ in_table }) => in_table === table);
    // Times with all their digits.
    const list = own.map(({ name, type }) =>
      type === 'TIMESTAMP'
        ? `FORMAT_TIMESTAMP('%Y-%m-%dT%H:%M:%E9SZ', ${name}, 'UTC') AS ${name}`
        : name,
    );
    return { table, key: own[0]!.name, sql: `SELECT ${list.join(', ')} FROM ${table}` };
  });
  const readAll = () =>
    Promise.all(
      tables.map(async ({ table, key, sql }) => {
        const rows = await spanner.query<SpannerRow>(sql);
        return { table, rows: new Map(rows.map((row) => [row[key]!, row])) };
      }),
    );
  const textOf = (row: SpannerRow | undefined) => Object.values(row ?? {}).join('\n');
  const before = await readAll();
  return async () => {
    const writes: Write[] = [];
    for (const [n, { table, rows: now }] of (await readAll()).entries()) {
      const { rows: then } = before[n]!;
      const gone = [...now.keys()].filter((key) => !then.has(key));
      const changed = [...then].filter(([key, row]) => textOf(now.get(key)) !== textOf(row));
      writes.push(
        ...gone.map((key): Write => ({ kind: 'delete', table, key: [key] })),
        ...changed.map(([, row]): Write => ({ kind: 'insertOrUpdate', table, row })),
      );
    }
    await spanner.transaction(async (tx) => tx.write(...writes));
  };
}

const body = { amount: 1_100, currency: 'EUR' };
const idOf = ({ body: text }: Answer) => (JSON.parse(text) as { id: string }).id;

/** The numbers of a payment's events, in the order in which its webhooks came. */
async function sequencesOf(id: string): Promise<(number | undefined)[]> {
  const response = await fetch(`${on.system.catcher}/received`);
  const all = (await response.json()) as { body: { sequence?: number; data: object } }[];
  const ofPayment = all.filter(({ body: { data } }) =>
    Object.entries(data).some(([name, value]) => ['id', 'payment'].includes(name) && value === id),
  );
  return ofPayment.map(({ body: { sequence } }) => sequence);
}

// An event that is on its way during the failover is kept in its old form, with another time: what
// is left of it is in docs/failures.md.
const notConsumed = `
  SELECT FROM ledger.outbox
  WHERE txn_id = ANY($1::uuid[]) AND NOT (
    EXISTS (SELECT FROM auditor.published WHERE published.event_id = outbox.event_id)
    AND (SELECT count(*) FROM consumers.inbox WHERE inbox.event_id = outbox.event_id) =
      (SELECT known.consumers FROM consumers.known)
  )`;

/** Waits until those who read events in larger batches than the notifier have them, too. */
function untilAllConsumed(ids: readonly string[]): Promise<unknown> {
  return eventually(async () => {
    return (await on.look.database.query(notConsumed, [ids])).length === 0;
  });
}

test('after a failover to a standby that lacks the newest commits, or a restore, a rewind brings everything accepted into the ledger, once', async (context) => {
  const { acme, look, system } = on;
  const database = openSetBack(system);
  context.after(() => database.close());
  const pay = async (more: object = {}) => {
    const key = newKey('set-back');
    const answer = await acme.pay(key, { ...body, ...more });
    assert.equal(answer.status, 202, answer.body);
    return idOf(answer);
  };
  const untilDelivered = (ids: readonly string[]) =>
    eventually(
      async () => {
        const seen = await Promise.all(ids.map((id) => look.webhooks(id)));
        return seen.every((webhooks) => webhooks.length > 0);
      },
      { withinMs: 60_000, what: 'the webhooks' },
    );

  const before = await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })]);
  await untilDelivered(before);
  await database.copy();
  const spanner = system.ledger === 'spanner' ? await look.ledger.spanner() : undefined;
  // After PostgreSQL, which must not know more than a ledger in Spanner.
  const restoreSpanner = spanner && (await rememberSpanner(spanner));
  const since = new Date();
  await upSystem();
  const transfers = await Promise.all([pay(), pay(), pay()]);
  const card = await pay({ payment_method: 'pm_card_visa' });
  await untilDelivered([...transfers, card]);
  const refund = idOf(await acme.refund(before[1], newKey('set-back'), { amount: 100 }));
  await untilDelivered([refund]);
  const lost = [...transfers, card];
  await untilAllConsumed([...lost, refund]);

  // Services are there when PostgreSQL fails over, and are stopped when Spanner is restored.
  if (restoreSpanner === undefined) await database.failOver();
  const words = ['--since', since.toISOString(), '--by', 'ada', '--why', 'failover', '--yes'];
  const early = await command('rewind', ...words);
  assert.equal(early.code, 1, early.stdout + early.stderr);
  assert.match(early.stderr, /still at work: .*ledger-worker/);
  const down = await command('down', '--services');
  assert.equal(down.code, 0, down.stdout + down.stderr);
  if (restoreSpanner !== undefined) await Promise.all([database.failOver(), restoreSpanner()]);
  const found = 'SELECT txn_id FROM transactions WHERE txn_id IN UNNEST(@lost)';
  // Of Spanner itself: whoever looks at its copy brings that up to date first.
  const left = spanner ? await spanner.query(found, { lost }) : [...(await look.inLedger(lost))];
  assert.deepEqual(left, []);
  const rewound = await command('rewind', ...words);
  assert.equal(rewound.code, 0, rewound.stdout + rewound.stderr);
  await upSystem();

  for (const id of [...before, ...lost]) {
    const final = await acme.payment(id, 30);
    assert.match(final.body, /"status":"succeeded"/);
    const { ledger, entries } = await look.counts(id);
    assert.deepEqual([ledger, entries], [1, 1]);
  }
  assert.match((await acme.refunded(refund, 30)).body, /"status":"succeeded"/);
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', '60');
  assert.equal(code, 0, stdout + stderr);
  for (const id of lost) assert.deepEqual([...new Set(await sequencesOf(id))], [1]);
  assert.deepEqual([...new Set(await sequencesOf(before[1]))], [1, 2]);
  const acts = await look.database.query(
    `SELECT done_by, why FROM auditor.operator_acts WHERE act = 'rewind'
     ORDER BY act_id DESC LIMIT 1`,
  );
  assert.deepEqual(acts, [{ done_by: 'ada', why: 'failover' }]);
});
