import type { Ledger } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import type { CrashPoints } from '@triplock/runtime';
import type { DeadLetters, RecordBatch } from '@triplock/transport';
import { isBookTransfer } from './book-transfer.ts';
import type { ChargeDesk, ChargeFate } from './charge-desk.ts';
import { decodeRecords, type DeadRecord, type PaymentRecord } from './decode-records.ts';
import type { PostBatch, PostResult } from './post-batch.ts';
import { resumePayment } from './resume-payment.ts';
import { setAside } from './set-aside.ts';

/** What settling payments needs. */
export type SettleParts = {
  /** Takes `postRowsMax` payments at most in one call. */
  post: PostBatch;
  postRowsMax: number;
  ledger: Pick<Ledger, 'settle' | 'find' | 'recordKeyConflict'>;
  desk: Pick<ChargeDesk, 'charge'>;
  deadLetters: Pick<DeadLetters, 'append'>;
  crashPoints: CrashPoints;
};

/**
 * What became of a record: its payment is final in the ledger, or pending there and looked after by
 * the resolver, or it is a dead letter.
 */
export type Fate =
  | { outcome: 'posted' | 'resumed' | ChargeFate; txnId: TxnId }
  | { outcome: 'refused' | 'key-conflict' | 'unpostable'; dead: DeadRecord };

/**
 * Takes a batch of accepted payments to its end, in three steps: post, charge, settle. Once it
 * resolves, all is durable and the batch's offset may be committed. Done again, after whatever
 * crash, it finds what it did and does the rest.
 *
 * Charging stands between the two others and outside of any transaction. A book transfer has
 * nothing to charge, so it is settled by the statement that posts it; what is left to settle is
 * cards, and what another worker posted and did not finish.
 *
 * @throws in an outage: nothing is dead-lettered for that, the batch has to come again.
 */
export async function settlePayments(parts: SettleParts, batch: RecordBatch): Promise<Fate[]> {
  const { payments, refused } = decodeRecords(batch.records);
  const fates: Fate[] = refused.map((dead) => ({ outcome: 'refused', dead }));
  for (let from = 0; from < payments.length; from += parts.postRowsMax) {
    // Throws once the partition is another worker's: it has begun the same batch.
    await batch.heartbeat();
    const some = payments.slice(from, from + parts.postRowsMax);
    const results = await parts.post(some.map(({ posting }) => posting));
    fates.push(
      ...(await Promise.all(some.map((payment, n) => finish(parts, payment, results[n]!)))),
    );
  }
  await parts.crashPoints.reached('worker.committed');
  // After all the ledger's work, so that an outage there does not make a dead letter with every try.
  const dead = fates.flatMap((fate) => ('dead' in fate ? fate.dead : []));
  await setAside(parts.deadLetters, dead);
  if (dead.length > 0) await parts.crashPoints.reached('worker.dead-lettered');
  return fates;
}

async function finish(
  { ledger, desk }: SettleParts,
  { record, posting }: PaymentRecord,
  result: PostResult,
): Promise<Fate> {
  const { txnId } = posting.payment;
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
    case 'key-conflict': {
      const eventId = await ledger.recordKeyConflict(posting);
      const detail = `the key stands for another request, told by event ${eventId}`;
      return {
        outcome: 'key-conflict',
        dead: { record, refusal: { reason: 'key_conflict', detail } },
      };
    }
    case 'unpostable': {
      const refusal = { reason: 'unpostable', detail: result.detail };
      return { outcome: 'unpostable', dead: { record, refusal } };
    }
    default:
      return result satisfies never;
  }
}
