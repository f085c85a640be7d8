import type { DueTransaction } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import { carriedTraceparent, inSpan, type Pass } from '@triplock/runtime';
import { carryOut } from './kinds.ts';
import { chargePayment } from './kinds/payment.ts';
import { postFollowUp } from './batch/follow-ups.ts';
import { keepInFlight, reportStillUnknown, reportStuck, unlessStuck } from './batch/in-flight.ts';
import { bookTransferOf } from './batch/posting.ts';
import { recallRefunds } from './recalling.ts';
import type { AttemptOutcome, Worker } from './worker.ts';

/** Of one pass, which reads each row. Until the lease ends no other resolver takes them. */
const rowsMax = 64;
const leaseMs = 15_000;

/**
 * The resolver: finishes pending transactions that nobody has finished in time, because a
 * worker died, the provider was away, or a customer takes long. Several resolvers share the work.
 * One that fails is due again later, and its version keeps a late worker from writing. While the
 * provider is left alone only what ends in the ledger is taken: a card would be put off for
 * nothing, and a book transfer or a refund that waits need not know of the provider at all.
 *
 * A pass takes as many due rows as there are slots for, and begins with each. It waits for a slot
 * and for no row's end, so that one slow row leaves the others' slots to the next pass.
 */
export function resolverPass(worker: Worker): Pass {
  const { slots, provider, takeDue } = worker;
  // One, as long as passes find nothing: they hold no slot that a batch may want.
  let expected = 1;

  return async () => {
    await slots.take('resolver');
    const callersMax = provider.callersMax();
    const rows = callersMax === 0 ? 'settled-here' : 'all';
    const wanted = rows === 'all' ? Math.min(expected, callersMax) : expected;
    const held = 1 + slots.takeFree(wanted - 1);
    let due: DueTransaction[] = [];
    try {
      due = await takeDue({ limit: held, leaseMs, rows });
    } finally {
      for (let unused = held - due.length; unused > 0; unused -= 1) slots.release();
    }
    for (const [each, turn] of inTurns(due)) {
      keepInFlight(
        worker,
        resolve(worker, each, turn).finally(() => {
          turn.end();
          slots.release();
        }),
      );
    }
    const mayBeMore = due.length === held;
    expected = mayBeMore ? rowsMax : 1;
    return mayBeMore ? due.length : 0;
  };
}

/** When one may be decided, and what tells the next one of its payment that it was. */
type Turn = { come: Promise<void>; end(): void };

/**
 * Gives each row its turn: refunds of one payment are decided one after the other in the order in
 * which they were accepted, because the first one gets the money, and the ledger decides none of
 * them before those ahead of it. Rows of different payments wait for nobody.
 */
function inTurns(due: readonly DueTransaction[]): [DueTransaction, Turn][] {
  const last = new Map<TxnId, Promise<void>>();
  const acceptedAt = (each: DueTransaction) =>
    each.kind === 'follow-up' ? +each.followUp.acceptedAt : 0;
  const ordered = due.toSorted((one, other) => acceptedAt(one) - acceptedAt(other));
  return ordered.map((each) => {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    if (each.kind !== 'follow-up') return [each, { come: Promise.resolve(), end }];
    const { paymentId } = each.followUp;
    const come = last.get(paymentId) ?? Promise.resolve();
    last.set(paymentId, promise);
    return [each, { come, end }];
  });
}

async function resolve(worker: Worker, due: DueTransaction, turn: Turn): Promise<void> {
  const { logger, metrics } = worker;
  if (due.kind === 'unreadable') {
    metrics.resolved.count('stuck');
    return reportStuck(worker, { ...due, because: 'unreadable' });
  }
  const { txnId, partnerId, acceptedAt } = due.kind === 'payment' ? due.payment : due.followUp;
  // In the trace of the request, however long ago that was: the row has kept its context.
  const attributes = { 'triplock.txn_id': txnId, 'triplock.partner_id': partnerId };
  const kind = due.kind === 'payment' ? due.kind : due.followUp.kind;
  const span = { name: `resolve ${kind}`, parent: due.traceparent, attributes };
  try {
    const ended = await inSpan(span, () =>
      unlessStuck(worker, txnId, () =>
        finish(worker, { ...due, traceparent: carriedTraceparent(due.traceparent) }, turn),
      ),
    );
    const { outcome } = ended;
    metrics.resolved.count(outcome);
    if (outcome === 'unknown') {
      reportStillUnknown(worker, { txnId, acceptedAt, because: ended.because });
    } else {
      logger.info({ txnId, outcome }, 'pending transaction taken up by the resolver');
    }
  } catch (err) {
    metrics.resolved.count('failed');
    logger.warn({ err, txnId }, 'the resolver failed on a pending transaction');
  }
}

/** One that was read. */
type Readable = Exclude<DueTransaction, { kind: 'unreadable' }>;

async function finish(worker: Worker, due: Readable, turn: Turn): Promise<AttemptOutcome> {
  switch (due.kind) {
    case 'payment':
      if (due.payment.details.paymentMethod !== undefined) return chargePayment(worker, due);
      return finishBookTransfer(worker, due);
    case 'follow-up':
      await turn.come;
      return finishFollowUp(worker, due, turn);
    default:
      return due satisfies never;
  }
}

async function finishBookTransfer(
  { ledger }: Worker,
  { payment, traceparent }: Extract<DueTransaction, { kind: 'payment' }>,
): Promise<AttemptOutcome> {
  const { txnId, version } = payment;
  const { settlement } = bookTransferOf({ payment, traceparent, settledAt: new Date() });
  const settled = await ledger.settle({ txnId, version, traceparent, ...settlement });
  return settled.outcome === 'settled'
    ? { outcome: 'settled', state: 'succeeded' }
    : { outcome: 'taken-over', state: 'pending' };
}

async function finishFollowUp(
  worker: Worker,
  due: Extract<DueTransaction, { kind: 'follow-up' }>,
  turn: Turn,
): Promise<AttemptOutcome> {
  const { followUp, traceparent } = due;
  const posted = await postFollowUp(worker, { followUp, traceparent, settledAt: new Date() });
  if (posted.outcome !== 'unasked') turn.end();
  switch (posted.outcome) {
    case 'reserved':
    case 'unfinished':
      return carryOut(worker, { followUp: posted.followUp, traceparent, asked: 'perhaps' });
    case 'settled':
    case 'waiting':
      return posted;
    case 'already-recorded':
      return { outcome: 'taken-over', state: posted.state };
    case 'unasked':
      return (await recallRefunds(worker, posted.paymentId)) ?? finishFollowUp(worker, due, turn);
    case 'key-conflict':
      throw new Error(`refund ${followUp.txnId} was posted and conflicts with itself`);
    default:
      return posted satisfies never;
  }
}
