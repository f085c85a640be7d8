import type { Queryable } from '@triplock/postgres';

/**
 * Until when the ledger's copy holds, where the auditor is in the midst of a backlog; nothing where
 * the copy is as of one moment, or the ledger is in PostgreSQL itself.
 */
export async function readCopyUntil(database: Queryable): Promise<Date | undefined> {
  const sql = 'SELECT until_micros AS micros FROM ledger.copied WHERE behind';
  const [row] = await database.query<{ micros: bigint }>(sql);
  return row && new Date(Number(row.micros / 1_000n));
}

/** What that means for whoever reads the ledger's tables, in a sentence. */
export function describeCopyUntil(until: Date): string {
  return `the ledger's copy is being brought up to now: what changed after ${until.toISOString()} may be missing or older here`;
}
