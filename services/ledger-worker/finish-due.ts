import type { DueTransaction, Ledger, Refunds, TakeDue } from '@triplock/ledger';
import type { CircuitBreaker } from '@triplock/provider';
import { carriedTraceparent, inSpan, type Logger, type Pass } from '@triplock/runtime';
import type { AttemptOutcome } from './attempt-outcome.ts';
import { bookTransferOf } from './book-transfer.ts';
import { chargePayment, type ChargeParts } from './charge-payment.ts';
import { giveBack, type GiveBackParts } from './give-back.ts';
import type { WorkerMetrics } from './metrics.ts';
import type { Places } from './places.ts';

/** What the resolver stands on. */
export type ResolverParts = ChargeParts &
  Omit<GiveBackParts, 'provider'> & {
    takeDue: TakeDue;
    ledger: Pick<Ledger, 'settle'>;
    refunds: Pick<Refunds, 'post'>;
    provider: Pick<CircuitBreaker, 'callersMax'>;
    /** Shared with the batches that charge. */
    places: Places;
    metrics: Pick<WorkerMetrics, 'resolved' | 'unknownAge'>;
    logger: Logger;
  };

/** The resolver's two ends. */
export type DueFinisher = {
  /**
   * One pass: takes as many due rows as there are places for, and begins with each. It waits for a
   * place and for no row's end, so that one slow row leaves the others' places to the next pass.
   */
  begin: Pass;
  /** Waits for what was begun. */
  ended(): Promise<void>;
};

/** For one look, which reads each row. Until the lease ends no other resolver takes them. */
const limits = { rowsMax: 64, leaseMs: 15_000 };

/**
 * The resolver: finishes pending transactions that nobody has looked after in time, because a
 * worker died, the provider was away, or a customer takes long. Several resolvers share the work.
 * One that fails is due again later, and its version keeps a late worker from writing. While
 * the provider is left alone nothing is taken, so that rows do not lose their turn for nothing.
 */
export function openDueFinisher(parts: ResolverParts): DueFinisher {
  const { places, provider, takeDue } = parts;
  const underWay = new Set<Promise<void>>();
  // One, as long as looks find nothing: they hold no place that a batch may want.
  let expected = 1;

  const begin = (due: DueTransaction) => {
    const work = finishOrLeave(parts, due).then(() => {
      places.giveBack();
      underWay.delete(work);
    });
    underWay.add(work);
  };
  return {
    begin: async () => {
      await places.take('resolver');
      const wanted = Math.min(expected, provider.callersMax());
      const held = wanted === 0 ? 1 : 1 + places.takeFree(wanted - 1);
      let due: DueTransaction[] = [];
      try {
        if (wanted > 0) due = await takeDue({ limit: held, leaseMs: limits.leaseMs });
      } finally {
        for (let unused = held - due.length; unused > 0; unused -= 1) places.giveBack();
      }
      due.forEach(begin);
      const mayBeMore = due.length === held;
      expected = mayBeMore ? limits.rowsMax : 1;
      return mayBeMore ? due.length : 0;
    },
    ended: async () => void (await Promise.all(underWay)),
  };
}

async function finishOrLeave(parts: ResolverParts, due: DueTransaction): Promise<void> {
  const { logger, metrics } = parts;
  const { txnId, acceptedAt } = due.kind === 'payment' ? due.payment : due.refund;
  try {
    const ended = await inSpan(spanOf(due), () =>
      finish(parts, { ...due, traceparent: carriedTraceparent(due.traceparent) }),
    );
    metrics.resolved.count(ended.outcome);
    if (ended.outcome === 'unknown') {
      metrics.unknownAge.observe((Date.now() - acceptedAt.getTime()) / 1_000);
      logger.warn(
        { err: ended.because.error, txnId },
        'the outcome of a transaction is still unknown',
      );
    } else {
      logger.info(
        { txnId, outcome: ended.outcome },
        'pending transaction taken up by the resolver',
      );
    }
  } catch (err) {
    metrics.resolved.count('failed');
    logger.warn({ err, txnId }, 'the resolver failed on a pending transaction');
  }
}

/** In the trace of the request, however long ago that was: the row has kept its context. */
function spanOf(due: DueTransaction) {
  const { txnId, partnerId } = due.kind === 'payment' ? due.payment : due.refund;
  const attributes = { 'triplock.txn_id': txnId, 'triplock.partner_id': partnerId };
  return { name: `resolve ${due.kind}`, parent: due.traceparent, attributes };
}

async function finish(parts: ResolverParts, due: DueTransaction): Promise<AttemptOutcome> {
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
): Promise<AttemptOutcome> {
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
    default:
      return posted satisfies never;
  }
}
