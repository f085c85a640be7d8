import type { Terminal } from '@triplock/command';
import { loadStatements, openForCommand, type Database } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'many-payments.sql', [
  'keepModel',
  'writeInserts',
  'pauseIndexes',
  'makeKeys',
  'makeBatches',
  'recordReaped',
]);

/** How many payments there are to be. */
export type Size = {
  /** In every layer, of the last days. */
  payments: number;
  /** Of days before those, which were reaped wherever days are. */
  ledgerRows: number;
};

const days = 10;
const reapedDays = 120;
const dayMs = 86_400_000;
/** None is so young that an audit would not close it. */
const youngestMs = 2 * 3_600_000;
const batchRows = 50_000;

/** A layer, and the statement that makes rows in it. */
type Layer = { layer: string; reaped: boolean; insert: string };

type Making = {
  database: Database;
  layers: readonly Layer[];
  terminal: Terminal;
  signal: AbortSignal;
};

/**
 * Makes payments like one that has come to its end, by SQL, with the indexes made afterwards: some
 * millions take minutes. Interrupted, it leaves a system that nobody can use.
 */
export async function makePayments(
  { url, ...listening }: Pick<Making, 'terminal' | 'signal'> & { url: string },
  modelId: string,
  { payments, ledgerRows }: Size,
): Promise<void> {
  const until = Date.now() - youngestMs;
  const reapedUntil = until - (days + 2) * dayMs;
  // In one session, which keeps the model.
  const limits = { connectionsMax: 1, statementTimeoutMs: 3_600_000 };
  const database = openForCommand({ url, applicationName: 'bench', ...limits });
  try {
    await database.query(sql.keepModel, [modelId]);
    const layers = await database.query<Layer>(sql.writeInserts);
    await database.query(sql.pauseIndexes, [layers.map(({ layer }) => layer)]);
    const making = { database, layers, ...listening };
    if (ledgerRows > 0) {
      await makeSome(making, {
        number: ledgerRows,
        prefix: 'bench-reaped-',
        reaped: true,
        days: reapedDays,
        until: reapedUntil,
      });
      await database.query(sql.recordReaped, [ledgerRows, new Date(reapedUntil + dayMs)]);
    }
    await makeSome(making, { number: payments, prefix: 'bench-', days, until, reaped: false });
    await makeIndexes(making);
  } finally {
    await database.close();
  }
}

/** Payments that came evenly over so many days until a time. */
type Some = {
  number: number;
  /** Of their keys. */
  prefix: string;
  days: number;
  until: number;
  /** They are left only in the layers that nothing is reaped from. */
  reaped: boolean;
};

async function makeSome(
  { database, layers, terminal, signal }: Making,
  { number, prefix, days: over, until, reaped }: Some,
): Promise<void> {
  const from = new Date(until - over * dayMs);
  const apartSeconds = (over * dayMs) / 1_000 / number;
  const inserts = layers.filter((layer) => !reaped || !layer.reaped);
  for (let first = 1; first <= number; first += batchRows) {
    signal.throwIfAborted();
    terminal.progress(`making ${prefix}${first} of ${number}`);
    const last = Math.min(number, first + batchRows - 1);
    await database.transaction(async (tx) => {
      await tx.query('SET LOCAL session_replication_role = replica');
      await tx.query('SET LOCAL synchronous_commit = off');
      await tx.query(sql.makeKeys, [first, last, prefix, from, apartSeconds, !reaped]);
      for (const { insert } of inserts) await tx.query(insert);
      await tx.query(sql.makeBatches);
    });
  }
}

async function makeIndexes({ database, layers, terminal, signal }: Making): Promise<void> {
  await database.query("SET maintenance_work_mem = '512MB'");
  for (const { layer } of layers) {
    signal.throwIfAborted();
    terminal.progress(`making the indexes of ${layer}`);
    await database.query(`REINDEX TABLE ${layer}`);
  }
  terminal.progress('what autovacuum would do');
  await database.query('VACUUM (ANALYZE)');
}
