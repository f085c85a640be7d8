import type { TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { Posting, PostOutcome } from '../ledger.ts';
import { ownMs } from '../own-time.ts';
import { compare, firstOfEach, standingAfter, type Standing } from '../standing.ts';
import { postingJson } from './posting-json.ts';
import { blamingInput } from './unpostable.ts';

const postSql = loadSql(import.meta.url, 'post.sql');
const classifySql = loadSql(import.meta.url, 'classify.sql');

/** Normally 1. An id still open after it was held when the insert looked and free afterwards. */
const roundsMax = 3;

/** Posts a batch by `Ledger.post`'s contract. */
export async function postPayments(
  database: Database,
  batch: readonly Posting[],
): Promise<PostOutcome[]> {
  const firsts = firstOfEach(batch);
  const made = new Set<TxnId>();
  const standing = new Map<TxnId, Standing>();
  for (let round = 0; standing.size < firsts.size; round += 1) {
    const open = [...firsts.values()].filter(({ payment }) => !standing.has(payment.txnId));
    if (round === roundsMax) throw unresolved(open);
    for (const txnId of await insert(database, open)) {
      made.add(txnId);
      standing.set(txnId, standingAfter(firsts.get(txnId)!));
    }
    const refused = open.map(({ payment }) => payment.txnId).filter((id) => !made.has(id));
    for (const row of await read(database, refused)) standing.set(row.txn_id, row);
  }
  return batch.map((posting) => {
    const { txnId } = posting.payment;
    // The first of its id made the row; the ones after it in the batch are its duplicates.
    return made.delete(txnId) ? { outcome: 'posted' } : compare(posting, standing.get(txnId)!);
  });
}

async function insert(database: Database, open: readonly Posting[]): Promise<TxnId[]> {
  const input = `[${open.map(postingJson).join(',')}]`;
  const rows = await blamingInput(() => database.query<{ txn_id: TxnId }>(postSql, [input, ownMs]));
  return rows.map((row) => row.txn_id);
}

async function read(
  database: Database,
  ids: readonly TxnId[],
): Promise<(Standing & { txn_id: TxnId })[]> {
  return ids.length === 0 ? [] : database.query(classifySql, [ids]);
}

function unresolved(open: readonly Posting[]): Error {
  const ids = open.map((posting) => posting.payment.txnId).join(', ');
  return new Error(
    `could neither insert nor find ${ids}: their keys stand under other ids, or every writer rolled back`,
  );
}
