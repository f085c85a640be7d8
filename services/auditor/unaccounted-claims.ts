import type { ClaimWalk, CompletedClaim } from '@triplock/claims';
import type { CopyLedger } from '@triplock/ledger';
import { loadStatements, type Queryable } from '@triplock/postgres';
import type { Logger, Pass } from '@triplock/runtime';
import { partitionOfKey, type TopicLog, type TopicOffsets } from '@triplock/transport';
import type { NotCompared } from './provider-journal.ts';

const sql = loadStatements(import.meta.url, 'unaccounted-claims.sql', [
  'takeStep',
  'endStep',
  'failStep',
  'readTrouble',
  'findUnaccounted',
  'doubt',
  'readDoubts',
  'forgetAccounted',
  'confirmDoubts',
]);

/** What the claims are compared with, and how fast. */
export type ClaimComparison = {
  database: Queryable;
  /** Opens the claim store to read; called again after a failure. */
  openWalk(): Promise<ClaimWalk>;
  log: Pick<TopicLog, 'topic' | 'bounds'>;
  /** How far the ledger workers came. */
  worker: Pick<TopicOffsets, 'committed'>;
  copyLedger?: CopyLedger | undefined;
  /** Claims that all auditors together look at in a second. */
  perSecond: number;
  logger: Logger;
};

/** Steps are a second apart, and a walk that is over begins again after this. */
const stepMs = 1_000;
const restMs = 10_000;

/** The comparison, and what ends with it. */
export type ClaimComparer = { pass: Pass; close(): Promise<void> };

/**
 * Compares the completed claims of the last 24 hours with the ledger, a slice a second however many
 * auditors run: a completed claim is a 202, and its record was in Kafka before. The topic cannot
 * say what it lost, but the claims still can.
 *
 * A claim that nothing accounts for may only be early. So the end of its record's partition is
 * noted, after the claim was read: its record is before that. Once both the workers' offsets and
 * the auditor's own are there, by reading or because the log lost what was before them, and still
 * nothing accounts for it, no waiting will: it is what the check `claim-unaccounted` names, until
 * its payment is posted after all or a person acknowledges it. No clock decides anything.
 *
 * A crash leaves the cursor where it was, and the slice is compared again.
 */
export function compareClaims(comparison: ClaimComparison): ClaimComparer {
  const { database } = comparison;
  let opened: Promise<ClaimWalk> | undefined;
  const close = async () => {
    const walk = await opened?.catch(() => undefined);
    opened = undefined;
    await walk?.close();
  };
  const pass = async () => {
    const [due] = await database.query<Step>(sql.takeStep, [stepMs]);
    if (due !== undefined) {
      const read = await readStep((opened ??= comparison.openWalk()), due, comparison);
      if (read.outcome === 'away') {
        await close();
        comparison.logger.warn({ err: read.error }, 'the claims could not be read');
        await database.query(sql.failStep, [due.step, (read.error as Error).message]);
      } else {
        await doubtMissing(comparison, read);
        await database.query(sql.endStep, [due.step, read.next ?? null, restMs]);
      }
    }
    await confirmDoubts(comparison);
    return 0;
  };
  return { pass, close };
}

type Step = { step: bigint; cursor: string | null };
type Read = {
  outcome: 'read';
  /** Those that stand out. */
  claims: readonly CompletedClaim[];
  next: string | undefined;
};

/** Whatever a claim store fails with: no other part of the audit waits for it. */
async function readStep(
  opened: Promise<ClaimWalk>,
  { cursor }: Step,
  { database, perSecond }: ClaimComparison,
): Promise<Read | { outcome: 'away'; error: unknown }> {
  const asked = async <Answer>(ask: (walk: ClaimWalk) => Promise<Answer>) => {
    try {
      return { answer: await ask(await opened) };
    } catch (error) {
      return { error };
    }
  };
  const from = cursor === null ? {} : { after: cursor };
  const limit = Math.max(1, Math.round((perSecond * stepMs) / 1_000));
  const step = await asked((walk) => walk.walk({ ...from, limit }));
  if (step.answer === undefined) return { outcome: 'away', error: step.error };
  const { claims, next } = step.answer;
  const ids = claims.map(({ txnId, fingerprint }) => ({ txn_id: txnId, fingerprint }));
  const missing = await database.query<{ txn_id: CompletedClaim['txnId'] }>(sql.findUnaccounted, [
    JSON.stringify(ids),
  ]);
  const standOut = new Set(missing.map(({ txn_id }) => txn_id));
  return { outcome: 'read', claims: claims.filter(({ txnId }) => standOut.has(txnId)), next };
}

async function doubtMissing({ database, log }: ClaimComparison, { claims }: Read) {
  if (claims.length === 0) return;
  const bounds = await log.bounds();
  const rows = claims.map(({ txnId, partnerId, fingerprint, acceptedAt, recordKey }) => {
    const partition = partitionOfKey(recordKey, bounds.size);
    return {
      txn_id: txnId,
      partner_id: partnerId,
      fingerprint,
      accepted_at: acceptedAt,
      kafka_partition: partition,
      before_offset: `${bounds.get(partition)!.end}`,
    };
  });
  // A walk may give a claim twice, and a statement takes it once.
  const unique = [...new Map(rows.map((row) => [row.txn_id, row])).values()];
  await database.query(sql.doubt, [log.topic, JSON.stringify(unique)]);
}

async function confirmDoubts({ database, log, worker, copyLedger, logger }: ClaimComparison) {
  const doubts = await database.query(sql.readDoubts);
  if (doubts.length === 0) return;
  const committed = [...(await worker.committed())].map(([partition, next]) => {
    return { partition, next: `${next}` };
  });
  await copyLedger?.({ counting: true });
  await database.query(sql.forgetAccounted);
  const confirmed = await database.query<object>(sql.confirmDoubts, [
    log.topic,
    JSON.stringify(committed),
  ]);
  for (const claim of confirmed) {
    logger.error(claim, 'a claim was answered, and nothing accounts for its payment');
  }
}

/** Why the claims could not be compared, and since when; `undefined` when they are. */
export async function claimsNotCompared(
  database: Queryable,
): Promise<{ because: NotCompared; since: Date } | undefined> {
  const [row] = await database.query<{ why: string; since: Date }>(sql.readTrouble);
  if (row === undefined) return undefined;
  const next = 'see that the auditor reaches the claim store, and audit again';
  return { because: { part: 'claims', why: row.why, next }, since: row.since };
}
