import { setTimeout as delay } from 'node:timers/promises';
import { ownMs, UnpostableError, UnreadableRowError } from '@triplock/ledger';
import { isFinal, type AcceptedPayment, type Payment, type TxnId } from '@triplock/payments';
import type { Unknown } from '@triplock/provider';
import type { FollowUpToDo } from '../kinds/follow-up.ts';
import { carryOut } from '../kinds.ts';
import { followUpOutcomes, type FollowUpOutcomeName } from '../kinds/outcomes.ts';
import { chargePayment } from '../kinds/payment.ts';
import type { AttemptOutcomeName, StuckReason } from '../metrics.ts';
import { chargerOf, workerAt } from '../providers.ts';
import type { AttemptOutcome, Stuck, Worker, WorkerAt } from '../worker.ts';

/**
 * What the provider has to be asked for: it is pending in the ledger, by this worker or another.
 */
export type InFlight =
  | { kind: 'payment'; payment: AcceptedPayment; traceparent: string; posted: 'now' | 'before' }
  | ({ kind: 'follow-up' } & FollowUpToDo);

/** What its batch has to know. `handed-over`: it is pending, durable, and the work goes on. */
export type BatchOutcome =
  | ('charged' | 'declined' | 'already-recorded' | 'handed-over')
  | FollowUpOutcomeName<'succeeded' | 'failed'>;

/**
 * Where one piece of work is. Its batch may go on at any stage but the last:
 *
 *     queued ──── a slot ────▶ asking ──── the outcome is known ────▶ ended
 *        │                       │                                      ▲
 *        │ a slot, too late      │ sent, and nobody knows what it did   │ known, or no rest
 *        ▼                       ▼                                      │ is left
 *     dropped                 unclear ──────────────────────────────────┘
 *
 * What is dropped, or ends without a known outcome, is pending in the ledger: the resolver's.
 */
type Stage = 'queued' | 'dropped' | 'asking' | 'unclear' | 'ended';

/**
 * What has no slot by then is the resolver's, which takes its row when the poster's time for it is
 * over.
 */
const queuedMsMax = ownMs - 2_000;

/** So much waits for slots before batches wait too, and of a partner that has little so much. */
const queuedMax = 2_000;
const littleQueued = 100;

/**
 * Charges a card, or does what follows a payment, for a batch that never waits long: `handOverMs`
 * for the end, or, where very much waits for a slot, `slotWaitMs` for one. A batch that has gone on
 * leaves its row pending; the work goes on in its slot or its queue, and the resolver does whatever
 * a crash leaves of it. Partners have slots in turn, so that the cards of one wait behind no crowd
 * of another's. For a provider that is left alone it waits as long, which holds back the partition
 * and spends no attempt.
 *
 * While work is under way that a batch did not wait for to the end, no other batch waits for one of
 * the same provider: one that is slow would hold back the book transfers behind each card.
 *
 * @throws in an outage of the ledger: the row may be pending, and the record has to come again.
 */
export async function finishForBatch(anyone: Worker, work: InFlight): Promise<BatchOutcome> {
  const worker = workerFor(anyone, work);
  const { slotWaitMs, handOverMs } = worker.limits;
  const progress = openProgress();
  const isCrowded = mayNotQueue(worker, work);
  const end = finishInSlot(worker, work, progress).finally(() => progress.moveTo('ended'));
  keepInFlight(worker, end);
  const waitMs = worker.outlasting.size === 0 ? handOverMs : 0;
  const startedMs = performance.now();
  await progress.leaves('queued', isCrowded ? slotWaitMs : waitMs);
  const leftMs = isCrowded ? waitMs : Math.max(0, waitMs - (performance.now() - startedMs));
  await progress.leaves('asking', leftMs);
  if (progress.stage() === 'ended') return end;
  keepUntilEnd(worker.outlasting, end);
  // What it throws from here on is no news to the batch, and the row is due for another attempt.
  end.catch((err: unknown) => {
    worker.logger.warn({ err, txnId: txnIdOf(work) }, 'handed-over work failed');
  });
  return 'handed-over';
}

/** The worker as it asks the provider that is to do the work. */
function workerFor(worker: Worker, work: InFlight): WorkerAt {
  const charger = work.kind === 'payment' ? chargerOf(work.payment) : work.followUp.provider.name;
  if (charger === undefined) throw new Error(`payment ${txnIdOf(work)} is charged by nobody`);
  return workerAt(worker, charger);
}

/** The stage of one piece of work, between the work and the batch that waits for it. */
type Progress = {
  stage(): Stage;
  moveTo(stage: Stage): void;
  /** Resolves once it is not in this stage, or the time is over. */
  leaves(stage: Stage, withinMs: number): Promise<void>;
};

function openProgress(): Progress {
  let stage: Stage = 'queued';
  let moved = Promise.withResolvers<void>();
  return {
    stage: () => stage,
    moveTo(next) {
      stage = next;
      moved.resolve();
      moved = Promise.withResolvers();
    },
    async leaves(left, withinMs) {
      if (stage === left) await Promise.race([moved.promise, unheld(withinMs)]);
    },
  };
}

/** Waits, and keeps no process from ending. */
async function unheld(ms: number): Promise<void> {
  await delay(ms, undefined, { ref: false });
}

async function finishInSlot(
  worker: WorkerAt,
  work: InFlight,
  progress: Progress,
): Promise<BatchOutcome> {
  const { slots } = worker;
  // A report about its charge may have let it be due, and the resolver has it, or has finished it.
  const isOthersToo = work.kind === 'follow-up' && slots.free() === 0;
  const queuedAtMs = performance.now();
  await slots.take(laneOf(work));
  try {
    if (performance.now() - queuedAtMs > queuedMsMax) {
      progress.moveTo('dropped');
      return 'handed-over';
    }
    progress.moveTo('asking');
    return await attemptUntilKnown(worker, work, progress, isOthersToo);
  } finally {
    slots.release();
  }
}

function mayNotQueue({ slots }: WorkerAt, work: InFlight): boolean {
  return slots.waiting(laneOf(work)) >= littleQueued && slots.waiting() >= queuedMax;
}

/** Partners have slots in turn. */
function laneOf(work: InFlight): string {
  const { partnerId } = work.kind === 'payment' ? work.payment : work.followUp;
  return `partner ${partnerId}`;
}

/**
 * Rests before a call whose outcome is unknown is made again; after the last attempt the resolver
 * takes over. Seconds apart, because each attempt uses up one fresh key at most, and all within the
 * time for which a pending row is its poster's own where slots are free.
 */
const restsMs = [1_000, 3_000];

/** Where the provider wants to be left alone for longer, the resolver asks it. */
const longestRestMs = Math.max(...restsMs);

/**
 * Attempts until the outcome is known. What was not even sent, because the provider is left alone,
 * is attempted again as long as the batch waits. What was sent and is not known is no longer waited
 * for, and attempted a few times more: most errors are gone a second later, and the resolver comes
 * later. While it rests, others have its slot.
 */
async function attemptUntilKnown(
  worker: WorkerAt,
  work: InFlight,
  progress: Progress,
  isOthersToo: boolean,
): Promise<BatchOutcome> {
  const { slots, limits } = worker;
  const deadline = performance.now() + limits.handOverMs;
  const rests = restsMs.values();
  for (let isFirst = !isOthersToo; ; isFirst = false) {
    const outcome = await attempt(worker, work, isFirst);
    if (outcome.outcome !== 'unknown') return batchOutcomeOf(work, outcome);
    const { sent, retryAfterMs = 0 } = outcome.because;
    const late = performance.now() + retryAfterMs >= deadline;
    const isOver = sent ? retryAfterMs > longestRestMs : late;
    const restMs = isOver ? undefined : sent ? rests.next().value : 0;
    if (sent) progress.moveTo('unclear');
    if (sent || late) reportUnknown(worker, work, outcome.because);
    if (restMs === undefined) return 'handed-over';
    slots.release();
    await delay(Math.max(restMs, retryAfterMs));
    await slots.take(laneOf(work));
  }
}

type Attempted = AttemptOutcome | { outcome: 'already-recorded' };

/**
 * One attempt; only the first may go by what was read before, later others may have been at it.
 * While a card waited for its slot the row was its poster's own. Should another worker have it all
 * the same, after a rebalance, both call under the same keys, and the row's version lets one write.
 */
async function attempt(worker: Worker, work: InFlight, isFirst: boolean): Promise<Attempted> {
  const { charges, refunds } = worker.metrics;
  const outcome = await unlessStuck(worker, txnIdOf(work), () =>
    attemptOnce(worker, work, isFirst),
  );
  if (outcome.outcome === 'already-recorded') return outcome;
  (work.kind === 'payment' ? charges : refunds).count(nameOf(outcome));
  return outcome;
}

async function attemptOnce(worker: Worker, work: InFlight, isFirst: boolean): Promise<Attempted> {
  switch (work.kind) {
    case 'payment': {
      const payment =
        isFirst && work.posted === 'now'
          ? justPosted(work.payment)
          : await unfinishedPayment(worker, work.payment);
      if (payment === undefined) return { outcome: 'already-recorded' };
      return chargePayment(worker, { payment, traceparent: work.traceparent });
    }
    case 'follow-up': {
      const toDo = isFirst ? work : await unfinishedFollowUp(worker, work);
      if (toDo === undefined) return { outcome: 'already-recorded' };
      return carryOut(worker, toDo);
    }
    default:
      return work satisfies never;
  }
}

function justPosted(payment: AcceptedPayment): Payment {
  return { ...payment, state: 'pending', version: 1, amountRefunded: 0n, settledAt: null };
}

async function unfinishedPayment({ ledger }: Worker, { txnId }: AcceptedPayment) {
  const row = await ledger.find(txnId);
  return row === undefined || isFinal(row.state) ? undefined : row;
}

async function unfinishedFollowUp(
  { followUps }: Worker,
  { followUp, traceparent }: FollowUpToDo,
): Promise<FollowUpToDo | undefined> {
  const row = await followUps.find(followUp.txnId);
  if (row === undefined || isFinal(row.state)) return undefined;
  // What was reserved stays so, and the charge is the payment's for ever.
  const { money = followUp.money, provider = followUp.provider } = row;
  return { followUp: { ...row, money, provider }, traceparent, asked: 'perhaps' };
}

function batchOutcomeOf(
  work: InFlight,
  outcome: Exclude<Attempted, { outcome: 'unknown' }>,
): BatchOutcome {
  switch (outcome.outcome) {
    case 'settled':
      if (work.kind === 'payment') return outcome.state === 'succeeded' ? 'charged' : 'declined';
      return followUpOutcomes[work.followUp.kind][
        outcome.state === 'succeeded' ? 'succeeded' : 'failed'
      ];
    case 'waiting':
    case 'stuck':
      return 'handed-over';
    case 'taken-over':
      return isFinal(outcome.state) ? 'already-recorded' : 'handed-over';
    case 'already-recorded':
      return 'already-recorded';
    default:
      return outcome satisfies never;
  }
}

function nameOf(outcome: AttemptOutcome): AttemptOutcomeName {
  if (outcome.outcome !== 'settled') return outcome.outcome;
  return outcome.state === 'canceled' || outcome.state === 'failed' ? 'failed' : 'succeeded';
}

function reportUnknown(worker: Worker, work: InFlight, because: Unknown): void {
  const { acceptedAt } = work.kind === 'payment' ? work.payment : work.followUp;
  reportStillUnknown(worker, { txnId: txnIdOf(work), acceptedAt, because });
}

/** Reports that nobody knows what became of a call, and whether it takes a person to learn it. */
export function reportStillUnknown(
  worker: Worker,
  { txnId, acceptedAt, because }: { txnId: TxnId; acceptedAt: Date; because: Unknown },
): void {
  const { error, untilMended } = because;
  worker.metrics.unknownAge.observe((Date.now() - acceptedAt.getTime()) / 1_000);
  if (untilMended) reportStuck(worker, { txnId, because: 'refused', error });
  else worker.logger.warn({ err: error, txnId }, 'the outcome at the provider is unknown');
}

function txnIdOf(work: InFlight) {
  return work.kind === 'payment' ? work.payment.txnId : work.followUp.txnId;
}

/** Keeps work in the table of what is in flight until it has ended, however it ends. */
export function keepInFlight({ inFlight }: Worker, work: Promise<unknown>): void {
  keepUntilEnd(inFlight, work);
}

function keepUntilEnd(kept: Set<Promise<unknown>>, work: Promise<unknown>): void {
  const ended: Promise<unknown> = work.catch(() => undefined).then(() => void kept.delete(ended));
  kept.add(ended);
}

/**
 * Makes an attempt that may meet what no other attempt will change: an end that the ledger can
 * never store, such as a text of the provider that it refuses, or a row that cannot be read.
 * Thrown, that would hold back its partition for ever; as an outcome it leaves one row pending,
 * which the resolver looks at again and an alarm reports.
 *
 * @throws in an outage, as the attempt does.
 */
export async function unlessStuck<Outcome>(
  worker: Worker,
  txnId: TxnId,
  attempt: () => Promise<Outcome>,
): Promise<Outcome | Stuck> {
  try {
    return await attempt();
  } catch (error) {
    const because = stuckBecause(error);
    if (because === undefined) throw error;
    reportStuck(worker, { txnId, because, error });
    return { outcome: 'stuck', because };
  }
}

function stuckBecause(error: unknown): Stuck['because'] | undefined {
  if (error instanceof UnpostableError) return 'unstorable';
  return error instanceof UnreadableRowError ? 'unreadable' : undefined;
}

const stuckMessages = {
  unreadable: 'a pending transaction cannot be read',
  unstorable: 'the ledger refuses to store how a transaction ended',
  refused: 'the provider refuses every call for a transaction until a person has mended that',
} as const satisfies Record<StuckReason, string>;

/** Reports a transaction that needs a person, each time that it is looked at and still does. */
export function reportStuck(
  { metrics, logger }: Worker,
  { txnId, because, error }: { txnId: TxnId; because: StuckReason; error: unknown },
): void {
  metrics.stuck.count(because);
  logger.error({ err: error, txnId, because }, stuckMessages[because]);
}
