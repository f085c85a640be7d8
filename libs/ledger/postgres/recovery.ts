import { loadStatements, type Database } from '@triplock/postgres';
import type { OpenRewind, Recovery } from '../recovery.ts';

const sql = loadStatements(import.meta.url, 'recovery.sql', [
  'noteLost',
  'openRewind',
  'disputesAsked',
]);

/** What workers do once a ledger in PostgreSQL was set back, as the role `triplock_ledger`. */
export function openPostgresRecovery(database: Database): Recovery {
  return {
    noteLost: async (since) => void (await database.query(sql.noteLost, [since])),
    openRewind: async () => (await database.query<OpenRewind>(sql.openRewind))[0],
    disputesAsked: async ({ id }) => void (await database.query(sql.disputesAsked, [id])),
  };
}
