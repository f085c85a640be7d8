import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { consumers } from '@triplock/pipeline';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { aScene } from '@triplock/testing/test';
import {
  checks,
  everything,
  parametersOf,
  withoutNestedLoops,
  type Check,
  type Window,
} from './checks.ts';
import { ownersOf } from './test/hops.ts';
import { aCardScene } from './test/harm.ts';
import { wholeSystem } from './test/whole-system.ts';
import { atOneMoment } from './windows.ts';

/**
 * What the planner expects of a statement over tables with so many rows on each of their pages. In
 * a database of its own: what it plans there for few rows is slow.
 */
async function aPlanner(context: TestContext) {
  const store = await createTestDatabase(context);
  const [auditor, admin] = [store.open('triplock_auditor'), store.open()];
  const some = wholeSystem(ownersOf(store));
  await aCardScene(some);
  for (let n = 0; n < 5; n += 1) await aScene(some);
  await admin.query('ANALYZE');
  // Autovacuum has no statistics of all inboxes together, which a person's ANALYZE makes (manual,
  // 24.1.3), here of so few payments that each is a value of its own.
  await admin.query('DELETE FROM pg_statistic WHERE stainherit');
  const [came] = await admin.query<{ from: Date; until: Date }>(
    'SELECT min(first_seen) AS from, max(first_seen) AS until FROM auditor.accepted',
  );
  /** A window in the midst of what came, of so much of it. */
  const windowOf = (share: number): Window => {
    const [from, until] = [came!.from.getTime(), came!.until.getTime()];
    const at = (part: number) => new Date(from + part * (until - from)).toISOString();
    return { from: at(0.5), until: at(0.5 + share) };
  };
  const planOf = async (
    { sql, needs }: Pick<Check, 'sql'> & Partial<Pick<Check, 'needs'>>,
    rows: number,
    window = everything,
  ) => {
    await admin.query(
      `UPDATE pg_class SET relpages = 1, reltuples = ${rows}
       WHERE relkind = 'r' AND relnamespace::regnamespace::text = ANY ($1)`,
      [['ledger', 'auditor', 'webhooks', ...consumers.map(({ schema }) => schema)]],
    );
    const parameters = sql.includes('$1') ? parametersOf({ needs }, window) : [];
    const explain = (tx: Queryable) =>
      tx.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `EXPLAIN (VERBOSE, FORMAT JSON) ${sql}`,
        parameters,
      );
    const [row] = await auditor.transaction((tx) =>
      parameters.length > 0 ? withoutNestedLoops(tx, explain) : explain(tx),
    );
    return row!['QUERY PLAN'][0].Plan;
  };
  return { planOf, windowOf };
}

/** A node of a plan, as EXPLAIN has it. */
type PlanNode = { 'Total Cost': number; Plans?: PlanNode[] } & {
  [Name in 'Schema' | 'Relation Name' | 'Index Cond' | 'Recheck Cond' | 'Filter']?: string;
};

/** What a plan reads of the tables that grow with every payment. */
function scansOf(plan: PlanNode): PlanNode[] {
  const grows = new Set([
    ...['accepted', 'transactions', 'entries', 'outbox', 'published'],
    ...['inbox', 'cursors', 'deliveries', 'delivery_attempts'],
  ]);
  const below = (plan.Plans ?? []).flatMap(scansOf);
  // What all inboxes inherit from holds nothing itself.
  const isRead = grows.has(plan['Relation Name'] ?? '') && plan.Schema !== 'consumers';
  return isRead ? [plan, ...below] : below;
}

const windowStatements = [
  ...(['sumWindow', 'sumUnfinished', 'countWindow', 'countUnfinished'] as const),
  ...(['beginning', 'measureSpan'] as const),
];

test('an audit of ten times as much takes about ten times as long', async (context) => {
  const { planOf } = await aPlanner(context);
  const sql = loadStatements(import.meta.url, 'windows.sql', windowStatements);
  const whole = windowStatements.slice(0, 4).map((name) => ({ name, sql: sql[name] }));
  for (const check of [...checks, ...whole]) {
    const { 'Total Cost': cost } = await planOf(check, 1_000_000);
    const { 'Total Cost': later } = await planOf(check, 10_000_000);
    assert.ok(later < 30 * cost, `${check.name}: ${later} after ${cost}`);
  }
});

test('what a slice is compared with is read by its time or by id, however much is beside it', async (context) => {
  const { planOf, windowOf } = await aPlanner(context);
  const totals = loadStatements(import.meta.url, 'windows.sql', windowStatements);
  const sums = ['sumWindow', 'countWindow'] as const;
  const ofWindow = sums.map((name) => ({ name, sql: totals[name], takesWindow: true }));
  const whole = new Set<string>();
  for (const check of [...checks, ...ofWindow].filter(({ takesWindow }) => takesWindow)) {
    for (const scan of scansOf(await planOf(check, 10_000_000, windowOf(0.002)))) {
      const found = scan['Index Cond'] ?? scan['Recheck Cond'] ?? '';
      const filter = scan['Filter'] ?? '';
      const byTime = /::timestamp with time zone/.test(found + filter);
      const byId = /\b(event_id|txn_id|payment_id|ordering_key|provider_intent_id) = /.test(found);
      if (!byTime && !byId)
        whole.add(`${check.name} of ${scan['Relation Name']}: ${found} ${filter}`);
    }
  }
  assert.deepEqual([...whole], []);
});

/** Every table that a window is compared in. */
const layers = [
  ...['accepted', 'dead_letters', 'published', 'provider_journal'].map((name) => `auditor.${name}`),
  ...['transactions', 'entries', 'outbox'].map((name) => `ledger.${name}`),
  ...['deliveries', 'delivery_attempts'].map((name) => `webhooks.${name}`),
  ...consumers.flatMap(({ schema }) => [`${schema}.inbox`, `${schema}.cursors`]),
];

/** What a node of a plan did. */
type Node = {
  'Node Type': string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: readonly Node[];
};

test('no check compares each with each, or is compiled for a cost that it has not, however little the statistics know', async (context) => {
  const { owner, auditor } = await aDayWithoutStatistics(context);
  const [day] = await owner.query<{ rows: number }>(
    `SELECT count(*)::integer AS rows FROM auditor.accepted WHERE first_seen > now()`,
  );
  const rows = day!.rows;
  assert.ok(rows > 5_000);
  for (const { name, sql, needs } of checks.filter(({ takesWindow }) => takesWindow)) {
    const plan = await atOneMoment({ database: auditor }, (tx) =>
      withoutNestedLoops(tx, async () => {
        const explained = await tx.query<{ 'QUERY PLAN': [{ Plan: Node; JIT?: object }] }>(
          `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`,
          parametersOf({ needs }, { ...everything, from: new Date().toISOString() }),
        );
        const [{ Plan, JIT }] = explained[0]!['QUERY PLAN'];
        assert.equal(JIT, undefined, name);
        return Plan;
      }),
    );
    const most = Math.max(...nodesOf(plan).map(workOf));
    assert.ok(most < 10 * rows, `${name} had ${most} rows in its hands, of ${rows}`);
  }
});

test('an audit has nothing compiled, plans only windows without nested loops, and leaves the session as it was', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const settings = `SELECT current_setting('enable_nestloop') AS loops, current_setting('jit') AS jit`;
  const [asSet] = await database.query<{ loops: string; jit: string }>(settings);
  await atOneMoment({ database }, async (tx) => {
    const during = await withoutNestedLoops(tx, () => tx.query(settings));
    assert.deepEqual(during, [{ loops: 'off', jit: 'off' }]);
    assert.deepEqual(await tx.query(settings), [{ loops: asSet!.loops, jit: 'off' }]);
  });
  assert.deepEqual(await database.query(settings), [asSet]);
});

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

function workOf(node: Node): number {
  const removed =
    (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0);
  return (node['Actual Rows'] + removed) * node['Actual Loops'];
}

/** Some payments that the statistics know of, and tomorrow's, each like one of those. */
async function aDayWithoutStatistics(
  context: TestContext,
): Promise<{ owner: Database; auditor: Database }> {
  const store = await createTestDatabase(context);
  const owners = ownersOf(store);
  const system = wholeSystem(owners);
  for (const table of layers) {
    await owners.admin.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`);
  }
  for (let payments = 0; payments < 20; payments += 1) {
    const payment = aPayment();
    await system.pay(payment);
    await system.giveBack(aRefund(payment, { amount: 1n }), 2);
  }
  await system.break(`
    INSERT INTO auditor.provider_journal
      (provider, kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
    SELECT 'stripe', journal.kind, journal.kind || txn_id, 'succeeded', amount, currency, created_at,
           'intent' || txn_id, txn_id, partner_id
    FROM ledger.transactions, unnest(ARRAY['intent', 'charge', 'refund']) AS journal (kind)`);
  await owners.admin.query('ANALYZE');
  for (const table of layers) await system.break(await copyAsTomorrows(owners.admin, table, 300));
  return { owner: owners.admin, auditor: owners.auditor };
}

/** The statement that adds so many copies of each row, under other ids and a day later. */
async function copyAsTomorrows(owner: Database, table: string, copies: number): Promise<string> {
  const columns = await owner.query<{ name: string; type: string }>(
    `SELECT quote_ident(attname) AS name, format_type(atttypid, NULL) AS type
     FROM pg_attribute
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
    [table],
  );
  const valueOf = ({ name, type }: { name: string; type: string }) => {
    if (type === 'uuid') return `md5(${name} || ' ' || n)::uuid`;
    if (type === 'timestamp with time zone') return `${name} + interval '1 day'`;
    if (['id', 'intent_id', 'idempotency_key'].includes(name)) return `${name} || n`;
    if (name === '"position"') return `${name} + 1000000000000 * n`;
    if (['order_id', 'kafka_offset'].includes(name)) return `${name} + 1000 * n`;
    return name;
  };
  return `
    INSERT INTO ${table} (${columns.map(({ name }) => name).join()}) OVERRIDING SYSTEM VALUE
    SELECT ${columns.map(valueOf).join()} FROM ${table}, generate_series(1, ${copies}) AS n`;
}
