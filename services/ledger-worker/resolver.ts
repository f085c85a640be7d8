import { setTimeout as delay } from 'node:timers/promises';
import type { DueRows, DueTransaction } from '@triplock/ledger';
import type { ProviderName, TxnId } from '@triplock/payments';
import {
  carriedTraceparent,
  inSpan,
  openSlots,
  runLoop,
  type Pass,
  type Slots,
} from '@triplock/runtime';
import { carryOut } from './kinds.ts';
import { chargePayment } from './kinds/payment.ts';
import { postFollowUp } from './batch/follow-ups.ts';
import { keepInFlight, reportStillUnknown, reportStuck, unlessStuck } from './batch/in-flight.ts';
import { bookTransferOf } from './batch/posting.ts';
import { recallRefunds } from './recalling.ts';
import { chargerOf } from './providers.ts';
import type { AttemptOutcome, Worker } from './worker.ts';

/** Of one pass, which reads each row. Until the lease ends no other resolver takes them. */
const rowsMax = 64;
const leaseMs = 15_000;
/**
 * While more are due than there are slots for, and nobody else wants these, they gather for so
 * long, to be filled by one look.
 */
const looksApartMs = 100;

/**
 * What a resolver takes: the rows that one provider is asked about, by its slots, or those that
 * come to an end in the ledger alone.
 */
export type Resolving = {
  /** Of its loop. */
  name: string;
  rows: DueRows;
  slots: Slots;
  /** How many rows may be begun now. */
  callersMax(): number;
};

/** A resolver for each provider, so that none waits for another, and one for what needs none. */
export function resolvingsOf({ providers }: Pick<Worker, 'providers'>): Resolving[] {
  const here: Resolving = {
    name: 'resolver',
    rows: 'settled-here',
    slots: openSlots(rowsMax),
    callersMax: () => Number.POSITIVE_INFINITY,
  };
  const at = providers.all.map(({ name, provider, slots }): Resolving => {
    const { callersMax } = provider;
    return { name: `resolver at ${name}`, rows: { provider: name }, slots, callersMax };
  });
  return [here, ...at];
}

/** The loops of all resolvers of a worker. */
export type Resolvers = {
  /** Has the rows of a provider looked at now. */
  wake(provider: ProviderName): void;
  stop(): Promise<unknown>;
};

/** Runs a loop for each. */
export function runResolvers(worker: Worker): Resolvers {
  const { logger } = worker;
  const loops = resolvingsOf(worker).map((resolving) => {
    const { name, rows } = resolving;
    const loop = runLoop(resolverPass(worker, resolving), { name, idleMs: 1_000, logger });
    return { rows, loop };
  });
  return {
    wake: (provider) => {
      for (const { rows, loop } of loops) {
        if (typeof rows === 'object' && rows.provider === provider) loop.wake();
      }
    },
    stop: () => Promise.all(loops.map(({ loop }) => loop.stop())),
  };
}

/**
 * The resolver: finishes pending transactions that nobody has finished in time, because a
 * worker died, a provider was away, or a customer takes long. Several workers share the work. One
 * that fails is due again later, and its version keeps a late worker from writing. While a provider
 * is left alone nothing of it is taken: a card would be put off for nothing.
 *
 * A pass takes as many due rows as there are slots for, and begins with each. It waits for a slot
 * and for no row's end, so that one slow row leaves the others' slots to the next pass.
 */
export function resolverPass(worker: Worker, { rows, slots, callersMax }: Resolving): Pass {
  const { takeDue } = worker;
  // One, as long as passes find nothing: they hold no slot that a batch may want.
  let expected = 1;
  let lookedMs = 0;

  return async () => {
    const restMs = lookedMs + looksApartMs - performance.now();
    if (expected > 1 && slots.waiting() === 0 && restMs > 0) await delay(restMs);
    await slots.take('resolver');
    const wanted = Math.min(expected, callersMax());
    if (wanted === 0) {
      slots.release();
      return 0;
    }
    const held = 1 + slots.takeFree(wanted - 1);
    lookedMs = performance.now();
    let due: DueTransaction[] = [];
    try {
      due = await takeDue({ limit: held, leaseMs, rows });
    } finally {
      for (let unused = held - due.length; unused > 0; unused -= 1) slots.release();
    }
    for (const [each, turn] of inTurns(due)) {
      const slot = inSlot(slots);
      keepInFlight(
        worker,
        resolve(worker, each, { turn, slot }).finally(() => {
          turn.end();
          slot.leave();
        }),
      );
    }
    const mayBeMore = due.length === held;
    expected = mayBeMore ? rowsMax : 1;
    return mayBeMore ? due.length : 0;
  };
}

/** The slot that one row has: of those who ask nobody, or of the provider that is asked. */
type Slot = {
  /** Changes it for one of a provider's, which may take as long as that is slow. */
  moveTo(slots: Slots): Promise<void>;
  leave(): void;
};

function inSlot(slots: Slots): Slot {
  let taken: Slots | undefined = slots;
  const leave = () => {
    taken?.release();
    taken = undefined;
  };
  return {
    async moveTo(others) {
      if (others === taken) return;
      leave();
      await others.take('resolver');
      taken = others;
    },
    leave,
  };
}

/** How one row is resolved: in whose turn, and in which slot. */
type Place = { turn: Turn; slot: Slot };

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

async function resolve(worker: Worker, due: DueTransaction, place: Place): Promise<void> {
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
        finish(worker, { ...due, traceparent: carriedTraceparent(due.traceparent) }, place),
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

async function finish(worker: Worker, due: Readable, place: Place): Promise<AttemptOutcome> {
  switch (due.kind) {
    case 'payment': {
      const charger = chargerOf(due.payment);
      if (charger === undefined) return finishBookTransfer(worker, due);
      await place.slot.moveTo(worker.providers.named(charger).slots);
      return chargePayment(worker, due);
    }
    case 'follow-up':
      await place.turn.come;
      return finishFollowUp(worker, due, place);
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
  place: Place,
): Promise<AttemptOutcome> {
  const { followUp, traceparent } = due;
  const posted = await postFollowUp(worker, { followUp, traceparent, settledAt: new Date() });
  if (posted.outcome !== 'unasked') place.turn.end();
  switch (posted.outcome) {
    case 'reserved':
    case 'unfinished':
      await place.slot.moveTo(worker.providers.named(posted.followUp.provider.name).slots);
      return carryOut(worker, { followUp: posted.followUp, traceparent, asked: 'perhaps' });
    case 'settled':
    case 'waiting':
      return posted;
    case 'already-recorded':
      return { outcome: 'taken-over', state: posted.state };
    case 'unasked':
      return (await recallRefunds(worker, posted.paymentId)) ?? finishFollowUp(worker, due, place);
    case 'key-conflict':
      throw new Error(`refund ${followUp.txnId} was posted and conflicts with itself`);
    default:
      return posted satisfies never;
  }
}
