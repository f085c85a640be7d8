import type { DueTransaction, Ledger, Refunds, TakeDue } from '@triplock/ledger';
import type { Logger, Pass } from '@triplock/runtime';
import { bookTransferOf } from './book-transfer.ts';
import { chargePayment, type ChargeParts } from './charge-payment.ts';
import { giveBack, type GiveBackOutcome, type GiveBackParts } from './give-back.ts';
import type { WorkerMetrics } from './metrics.ts';

/** What the resolver stands on. */
export type ResolverParts = ChargeParts &
  Omit<GiveBackParts, 'provider'> & {
    takeDue: TakeDue;
    ledger: Pick<Ledger, 'settle'>;
    refunds: Pick<Refunds, 'post'>;
    metrics: Pick<WorkerMetrics, 'resolved'>;
    logger: Logger;
  };

/** So many are looked after at once, and until then they are nobody else's. */
const limits = { limit: 32, leaseMs: 15_000 };

/**
 * The resolver: one pass over pending transactions that nobody has looked after in time, because a
 * worker died, the provider was away, or a customer takes long. Several resolvers share the work.
 * One that fails is due again later, and its version tells whoever comes late to do nothing.
 */
export function finishDue(parts: ResolverParts): Pass {
  return async () => {
    const due = await parts.takeDue(limits);
    const outcomes = await Promise.all(due.map((each) => finishOrLeave(parts, each)));
    for (const outcome of outcomes) parts.metrics.resolved.inc({ outcome });
    // What waits is due again later: only what was finished says that there may be more to do now.
    return outcomes.filter((outcome) => outcome === 'settled').length;
  };
}

async function finishOrLeave(parts: ResolverParts, due: DueTransaction): Promise<string> {
  const { txnId } = due.kind === 'payment' ? due.payment : due.refund;
  try {
    const ended = await finish(parts, due);
    if (ended.outcome === 'unknown') {
      parts.logger.warn({ err: ended.because.error, txnId }, 'a transaction is still unknown');
    } else {
      parts.logger.info({ txnId, outcome: ended.outcome }, 'a pending transaction looked after');
    }
    return ended.outcome;
  } catch (err) {
    parts.logger.warn({ err, txnId }, 'a pending transaction could not be looked after');
    return 'failed';
  }
}

async function finish(parts: ResolverParts, due: DueTransaction): Promise<GiveBackOutcome> {
  const { traceparent } = due;
  if (due.kind === 'refund') return finishRefund(parts, due);
  const { payment } = due;
  if (payment.details.paymentMethod !== undefined) return chargePayment(parts, due);
  const { txnId, version } = payment;
  const { settlement } = bookTransferOf({ payment, traceparent, settledAt: new Date() });
  const settled = await parts.ledger.settle({ txnId, version, traceparent, ...settlement });
  return settled.outcome === 'settled'
    ? { outcome: 'settled', state: 'succeeded' }
    : { outcome: 'taken-over', state: 'pending' };
}

async function finishRefund(
  parts: ResolverParts,
  { refund, traceparent }: Extract<DueTransaction, { kind: 'refund' }>,
): Promise<GiveBackOutcome> {
  const posted = await parts.refunds.post({ refund, traceparent, settledAt: new Date() });
  switch (posted.outcome) {
    case 'reserved':
    case 'unfinished':
      return giveBack(parts, { refund: posted.refund, traceparent, asked: 'perhaps' });
    case 'settled':
    case 'waiting':
      return posted;
    case 'already-recorded':
      return { outcome: 'taken-over', state: posted.state };
    case 'key-conflict':
      throw new Error(`refund ${refund.txnId} was posted and conflicts with itself`);
  }
}
