import type { Ledger } from '@triplock/ledger';
import { annotateSpan, type CrashPoints } from '@triplock/runtime';
import type { DeadLetters, RecordBatch } from '@triplock/transport';
import { isBookTransfer } from './book-transfer.ts';
import type { ChargeDesk } from './charge-desk.ts';
import { decodeRecords, type DecodedRecords, type PaymentRecord } from './decode-records.ts';
import { keyConflict, unpostable, type Fate } from './fate.ts';
import type { PostBatch, PostResult } from './post-batch.ts';
import { countConflict } from './count-conflict.ts';
import { resumePayment } from './resume-payment.ts';
import { setAside } from './set-aside.ts';
import { settleRefunds, type RefundParts } from './settle-refunds.ts';

/** What settling a batch needs. */
export type SettleParts = RefundParts & {
  /** Takes `postRowsMax` payments at most in one call. */
  post: PostBatch;
  postRowsMax: number;
  ledger: Pick<Ledger, 'settle' | 'find' | 'recordKeyConflict'>;
  desk: Pick<ChargeDesk, 'charge'>;
  deadLetters: Pick<DeadLetters, 'append'>;
  crashPoints: CrashPoints;
};

/**
 * Takes a batch of accepted payments and refunds to its end, in three steps: post, charge or give
 * back, settle. Once it resolves, all is durable and the batch's offset may be committed. Run again
 * after a crash at any line, it finds what was done and does the rest.
 *
 * Charging stands between the two others and outside any transaction. A book transfer has nothing
 * to charge, so the statement that posts it also settles it; left to settle are card payments, and
 * what another worker posted and did not finish.
 *
 * All payments go before all refunds. A refund's record has its payment's key and so stands behind
 * it in the partition; that other payments come forward too changes nothing, because no payment
 * depends on a refund.
 *
 * @throws in an outage: nothing is dead-lettered for that, and the batch must be redelivered.
 */
export async function settleBatch(parts: SettleParts, batch: RecordBatch): Promise<Fate[]> {
  const decoded = decodeRecords(batch.records);
  try {
    return await settleDecoded(parts, batch, decoded);
  } catch (error) {
    for (const { span } of [...decoded.payments, ...decoded.refunds]) span.fail(error);
    throw error;
  }
}

async function settleDecoded(
  parts: SettleParts,
  batch: RecordBatch,
  { payments, refunds, refused }: DecodedRecords,
): Promise<Fate[]> {
  const fates: Fate[] = refused.map((dead) => ({ outcome: 'refused', dead }));
  for (let from = 0; from < payments.length; from += parts.postRowsMax) {
    // Throws once the partition is another worker's: it has begun the same batch.
    await batch.heartbeat();
    const some = payments.slice(from, from + parts.postRowsMax);
    const results = await parts.post(some.map(({ posting }) => posting));
    fates.push(
      ...(await Promise.all(
        some.map((payment, n) => payment.span.run(() => finish(parts, payment, results[n]!))),
      )),
    );
  }
  fates.push(...(await settleRefunds(parts, batch, refunds)));
  await parts.crashPoints.reached('worker.committed');
  // After all the ledger's work, so that an outage there does not append a dead letter at each try.
  const dead = fates.flatMap((fate) => ('dead' in fate ? fate.dead : []));
  await setAside(parts.deadLetters, dead);
  if (dead.length > 0) await parts.crashPoints.reached('worker.dead-lettered');
  return fates;
}

async function finish(
  { ledger, desk, metrics }: SettleParts,
  { record, posting }: PaymentRecord,
  result: PostResult,
): Promise<Fate> {
  const { txnId } = posting.payment;
  countConflict(metrics, result.outcome);
  annotateSpan({ 'triplock.guard.ledger': result.outcome });
  switch (result.outcome) {
    case 'already-recorded':
      return { outcome: 'already-recorded', txnId };
    case 'posted':
      if (isBookTransfer(posting)) return { outcome: 'posted', txnId };
      return { outcome: await desk.charge({ ...posting, posted: 'now' }), txnId };
    case 'unfinished':
      if (isBookTransfer(posting)) {
        return { outcome: await resumePayment(ledger, posting, result.version), txnId };
      }
      return { outcome: await desk.charge({ ...posting, posted: 'before' }), txnId };
    case 'key-conflict':
      return keyConflict(record, await ledger.recordKeyConflict(posting));
    case 'unpostable':
      return unpostable(record, result.detail);
    default:
      return result satisfies never;
  }
}
