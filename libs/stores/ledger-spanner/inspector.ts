import type { LedgerInspector, LedgerLease } from '@triplock/ledger';
import type { SpannerDatabase } from './spanner/database.ts';
import { commitTimestamp, type Write } from './spanner/values.ts';

/** A ledger in Spanner, past the services; opened when it is first asked. */
export function inspectSpanner(open: () => Promise<SpannerDatabase>): LedgerInspector {
  let opened: Promise<SpannerDatabase> | undefined;
  const spanner = () => (opened ??= open());
  return {
    has: async (txnIds) => {
      const sql = 'SELECT txn_id FROM transactions WHERE txn_id IN UNNEST(@txnIds)';
      const rows = await (await spanner()).query<{ txn_id: string }>(sql, { txnIds });
      return rows.map((row) => row.txn_id);
    },
    leases: async () => {
      const rows = await (
        await spanner()
      ).query<Record<keyof LedgerLease, unknown>>(
        `SELECT bucket, SPLIT(owner, ':')[OFFSET(0)] AS owner, epoch FROM outbox_leases
         WHERE owner IS NOT NULL AND expires_at > CURRENT_TIMESTAMP()`,
      );
      return rows.map((row) => ({ ...(row as LedgerLease), bucket: Number(row.bucket) }));
    },
    makeDue: async (txnId) => {
      const sql = `
        SELECT txn_id, CURRENT_TIMESTAMP() AS due_at FROM transactions
        WHERE txn_id = @txnId AND state = 'pending'`;
      await (
        await spanner()
      ).transaction(async (tx) => {
        const rows = await tx.query<{ txn_id: string; due_at: Date }>(sql, { txnId });
        for (const row of rows) {
          const changed = { ...row, changed_at: commitTimestamp };
          tx.write({ kind: 'update', table: 'transactions', row: changed });
        }
      });
    },
    remember: async () => remember(await spanner()),
    close: async () => (await opened?.catch(() => undefined))?.close(),
  };
}

type Row = Readonly<Record<string, string | bigint | boolean | null>>;

async function remember(spanner: SpannerDatabase): Promise<() => Promise<void>> {
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
        const rows = await spanner.query<Row>(sql);
        return { table, rows: new Map(rows.map((row) => [row[key]!, row])) };
      }),
    );
  const textOf = (row: Row | undefined) => Object.values(row ?? {}).join('\n');
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
