import { UnpostableError, type RefundOutcome, type Refunds } from '@triplock/ledger';
import { annotateSpan, type CrashPoints } from '@triplock/runtime';
import type { RecordBatch } from '@triplock/transport';
import type { ChargeDesk } from './charge-desk.ts';
import { countConflict } from './count-conflict.ts';
import type { RefundRecord } from './decode-records.ts';
import { keyConflict, unpostable, type Fate } from './fate.ts';
import type { RecordMetrics } from './metrics.ts';

/** What settling refunds needs. */
export type RefundParts = {
  refunds: Pick<Refunds, 'post' | 'recordKeyConflict'>;
  desk: Pick<ChargeDesk, 'giveBack'>;
  crashPoints: Pick<CrashPoints, 'reached'>;
  metrics: Pick<RecordMetrics, 'conflicts' | 'caught'>;
};

/** Posted before the next heartbeat: each is a transaction of its own, of some milliseconds. */
const refundsMax = 100;

/** Payments whose refunds are posted side by side: half of the ledger's connections. */
const paymentsMax = 4;

type Posted = { refund: RefundRecord; result: PostedRefund };
type PostedRefund = RefundOutcome | { outcome: 'unpostable'; detail: string };

/**
 * Posts refunds, those of one payment in the order of their records, so that the first to arrive
 * gets the money; then has the provider give back what was reserved. A refund whose payment is not
 * final waits as a pending row and holds up nobody: it is due as soon as its payment is settled.
 *
 * A crash at any line leaves posted rows and an offset that is not committed: the redelivered batch
 * finds each row by its key and goes on where it stopped.
 *
 * @throws in an outage: the batch must be redelivered.
 */
export async function settleRefunds(
  parts: RefundParts,
  batch: Pick<RecordBatch, 'heartbeat'>,
  refunds: readonly RefundRecord[],
): Promise<Fate[]> {
  const fates: Fate[] = [];
  for (let from = 0; from < refunds.length; from += refundsMax) {
    await batch.heartbeat();
    const posted = await postInOrder(parts, refunds.slice(from, from + refundsMax));
    fates.push(
      ...(await Promise.all(posted.map((each) => each.refund.span.run(() => finish(parts, each))))),
    );
  }
  return fates;
}

async function postInOrder(parts: RefundParts, refunds: readonly RefundRecord[]) {
  const posted: Posted[] = [];
  const byPayment = Map.groupBy(refunds, ({ posting }) => posting.refund.paymentId).values();
  const postSome = async () => {
    // Whoever is free takes the next payment: they share the iterator.
    for (const ofOne of byPayment) {
      for (const refund of ofOne) {
        const result = await refund.span.within(() => post(parts, refund));
        posted.push({ refund, result });
      }
    }
  };
  await Promise.all(Array.from({ length: paymentsMax }, postSome));
  return posted;
}

async function post({ refunds }: RefundParts, { posting }: RefundRecord): Promise<PostedRefund> {
  try {
    return await refunds.post(posting);
  } catch (error) {
    if (!(error instanceof UnpostableError)) throw error;
    return { outcome: 'unpostable', detail: error.message };
  }
}

async function finish(parts: RefundParts, { refund, result }: Posted): Promise<Fate> {
  const { record, posting } = refund;
  const { txnId } = posting.refund;
  const { traceparent } = posting;
  countConflict(parts.metrics, result.outcome);
  annotateSpan({ 'triplock.guard.ledger': result.outcome });
  switch (result.outcome) {
    case 'settled':
      return { outcome: result.state === 'succeeded' ? 'refunded' : 'refund-failed', txnId };
    case 'already-recorded':
      return { outcome: 'already-recorded', txnId };
    case 'waiting':
      return { outcome: 'refund-waiting', txnId };
    case 'reserved':
    case 'unfinished': {
      await parts.crashPoints.reached('worker.reserved');
      const asked = result.outcome === 'reserved' ? 'never' : 'perhaps';
      const given = { refund: result.refund, traceparent, asked } as const;
      return { outcome: await parts.desk.giveBack(given), txnId };
    }
    case 'key-conflict':
      return keyConflict(record, await parts.refunds.recordKeyConflict(posting));
    case 'unpostable':
      return unpostable(record, result.detail);
    default:
      return result satisfies never;
  }
}
