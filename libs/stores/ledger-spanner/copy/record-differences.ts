import type { Queryable } from '@triplock/postgres';

/** What the store says and the history of the copy does not allow, by ids. */
export type Differences = {
  kind: 'transaction' | 'entry' | 'event' | 'rows';
  found: readonly { id: string }[];
};

/** Records differences, each once; the audit reads them. */
export async function recordDifferences(
  tx: Queryable,
  { kind, found }: Differences,
): Promise<void> {
  if (found.length === 0) return;
  const sql = `
    INSERT INTO ledger.copy_differences (kind, id) SELECT $1, unnest($2::text[])
    ON CONFLICT DO NOTHING`;
  await tx.query(sql, [kind, found.map(({ id }) => id)]);
}
