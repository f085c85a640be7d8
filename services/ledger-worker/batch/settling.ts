import { RowLockedError } from '@triplock/ledger';
import { isFinal, type EventId } from '@triplock/payments';
import { annotateSpan } from '@triplock/runtime';
import type { ReceivedRecord, RecordBatch } from '@triplock/transport';
import { postFollowUps, type PostedFollowUp, type FollowUpPostResult } from './follow-ups.ts';
import { finishForBatch, reportStuck, unlessStuck } from './in-flight.ts';
import { followUpOutcomes } from '../kinds/outcomes.ts';
import {
  decodeRecords,
  isBookTransfer,
  type BookTransfer,
  type DeadRecord,
  type DecodedRecords,
  type PaymentRecord,
  type PostResult,
  type RecordOutcome,
} from './posting.ts';
import type { Worker } from '../worker.ts';

/**
 * Follow-ups posted before the next heartbeat: each is a transaction of its own, some milliseconds.
 */
const followUpsMax = 100;

/**
 * Takes a batch of accepted payments and follow-ups to its end, in three steps: post, have the
 * provider do it, settle. Once it resolves, all is durable and the batch's offset may be committed.
 * Run again after a crash at any line, it finds what was done and does the rest.
 *
 * Charging stands between the two others and outside any transaction. A book transfer has nothing
 * to charge, so the statement that posts it also settles it; left to settle are card payments, and
 * what another worker posted and did not finish.
 *
 * All payments go before all follow-ups. The record of one has its payment's key and so stands
 * behind it in the partition; that other payments come forward too changes nothing, because no
 * payment depends on a follow-up.
 *
 * @throws in an outage: nothing is dead-lettered for that, and the batch must be redelivered.
 */
export async function settleBatch(worker: Worker, batch: RecordBatch): Promise<RecordOutcome[]> {
  const decoded = decodeRecords(batch.records);
  try {
    return await settleDecoded(worker, batch, decoded);
  } catch (error) {
    for (const { span } of [...decoded.payments, ...decoded.followUps]) span.fail(error);
    throw error;
  }
}

async function settleDecoded(
  worker: Worker,
  batch: RecordBatch,
  { payments, followUps, refused }: DecodedRecords,
): Promise<RecordOutcome[]> {
  const { crashPoints, limits } = worker;
  const outcomes: RecordOutcome[] = refused.map((dead) => ({ outcome: 'refused', dead }));
  for (const some of chunksOf(payments, limits.postRowsMax)) {
    // Throws once the partition is another worker's: it has begun the same batch.
    await batch.heartbeat();
    const results = await worker.post(some.map(({ posting }) => posting));
    const finished = some.map((payment, n) =>
      payment.span.run(() => finishPayment(worker, payment, results[n]!)),
    );
    outcomes.push(...(await Promise.all(finished)));
  }
  for (const some of chunksOf(followUps, followUpsMax)) {
    await batch.heartbeat();
    const posted = await postFollowUps(worker, some);
    const finished = posted.map((each) =>
      each.followUp.span.run(() => finishFollowUp(worker, each)),
    );
    outcomes.push(...(await Promise.all(finished)));
  }
  await crashPoints.reached('worker.committed');
  // After all the ledger's work, so that an outage there does not append a dead letter at each try.
  const dead = outcomes.flatMap((each) => ('dead' in each ? each.dead : []));
  if (dead.length === 0) return outcomes;
  await appendDeadLetters(worker, dead);
  await crashPoints.reached('worker.dead-lettered');
  return outcomes;
}

function* chunksOf<Item>(items: readonly Item[], itemsMax: number): Generator<Item[]> {
  for (let from = 0; from < items.length; from += itemsMax) {
    yield items.slice(from, from + itemsMax);
  }
}

async function finishPayment(
  worker: Worker,
  { record, posting }: PaymentRecord,
  result: PostResult,
): Promise<RecordOutcome> {
  const { payment, traceparent } = posting;
  const { txnId } = payment;
  reportPosted(worker, result);
  switch (result.outcome) {
    case 'already-recorded':
      return { outcome: 'already-recorded', txnId };
    case 'posted': {
      if (isBookTransfer(posting)) return { outcome: 'posted', txnId };
      const card = { kind: 'payment', payment, traceparent, posted: 'now' } as const;
      return { outcome: await finishForBatch(worker, card), txnId };
    }
    case 'unfinished': {
      if (isBookTransfer(posting)) {
        const resumed = await unlessStuck(worker, txnId, () =>
          resume(worker, posting, result.version),
        );
        return { outcome: typeof resumed === 'string' ? resumed : 'handed-over', txnId };
      }
      const card = { kind: 'payment', payment, traceparent, posted: 'before' } as const;
      return { outcome: await finishForBatch(worker, card), txnId };
    }
    case 'key-conflict':
      return keyConflict(record, await worker.ledger.recordKeyConflict(posting));
    case 'unpostable':
      return unpostable(record, result.detail);
    default:
      return result satisfies never;
  }
}

/**
 * For how long a batch waits for whoever has the row of a book transfer, as for that of a refund.
 */
const lockMs = 200;

/**
 * Finishes a book transfer that was posted and not settled, perhaps because that worker died. The
 * version that was read decides between this worker and any other that resumes it too. One that
 * somebody has is left to the resolver: no batch waits for one row.
 *
 * @throws when the row changed and is still pending: the record has to be looked at again.
 */
async function resume(
  { ledger }: Worker,
  { payment: { txnId }, traceparent, settlement }: BookTransfer,
  version: number,
): Promise<'resumed' | 'already-recorded' | 'handed-over'> {
  const request = { txnId, version, traceparent, lockMs, ...settlement };
  const settled = await ledger.settle(request).catch((error: unknown) => {
    if (error instanceof RowLockedError) return { outcome: 'locked' } as const;
    throw error;
  });
  if (settled.outcome === 'locked') return 'handed-over';
  if (settled.outcome === 'settled') return 'resumed';
  const row = await ledger.find(txnId);
  if (row && isFinal(row.state)) return 'already-recorded';
  throw new Error(`payment ${txnId} changed while it was resumed`);
}

async function finishFollowUp(
  worker: Worker,
  { followUp: { record, posting }, result }: PostedFollowUp,
): Promise<RecordOutcome> {
  const { traceparent } = posting;
  const { txnId, kind } = posting.followUp;
  const outcomes = followUpOutcomes[kind];
  reportPosted(worker, result);
  switch (result.outcome) {
    case 'settled':
      return { outcome: outcomes[result.state === 'succeeded' ? 'succeeded' : 'failed'], txnId };
    case 'already-recorded':
      return { outcome: 'already-recorded', txnId };
    case 'waiting':
    case 'unasked':
      // Where the provider has to be asked first the resolver does so: no batch waits for that.
      return { outcome: outcomes.waiting, txnId };
    case 'reserved':
    case 'unfinished': {
      await worker.crashPoints.reached('worker.reserved');
      const asked = result.outcome === 'reserved' ? 'never' : 'perhaps';
      const reserved = {
        kind: 'follow-up',
        followUp: result.followUp,
        traceparent,
        asked,
      } as const;
      return { outcome: await finishForBatch(worker, reserved), txnId };
    }
    case 'key-conflict':
      return keyConflict(record, await worker.followUps.recordKeyConflict(posting));
    case 'unreadable':
      reportStuck(worker, { txnId, because: 'unreadable', error: result.error });
      return { outcome: 'handed-over', txnId };
    case 'unpostable':
      return unpostable(record, result.detail);
    default:
      return result satisfies never;
  }
}

/** Counts what posting found in the ledger already. Another request's key is no duplicate. */
function reportPosted({ metrics }: Worker, { outcome }: PostResult | FollowUpPostResult): void {
  annotateSpan({ 'triplock.guard.ledger': outcome });
  if (outcome === 'key-conflict') {
    metrics.conflicts.count('key-conflict');
  } else if (outcome === 'already-recorded' || outcome === 'unfinished') {
    metrics.conflicts.count(outcome === 'unfinished' ? 'resumed' : 'final');
    metrics.caught.count('ledger');
  }
}

/** Far below what dead letters hold in memory, even when a dozen partitions are full of poison. */
const appendsMax = 500;

/**
 * Appends records to the dead-letter topic, with their bytes, headers and the reason. Resolves when
 * all of them are durable there. Repeated, it appends them twice, which a redrive can bear.
 */
async function appendDeadLetters(
  { deadLetters }: Worker,
  dead: readonly DeadRecord[],
): Promise<void> {
  for (let from = 0; from < dead.length; from += appendsMax) {
    const some = dead.slice(from, from + appendsMax);
    await Promise.all(some.map(({ record, refusal }) => deadLetters.append(record, refusal)));
  }
}

/** The record's key stands for another request; an event reports it to the partner. */
function keyConflict(record: ReceivedRecord, eventId: EventId): RecordOutcome {
  const detail = `the key stands for another request, which event ${eventId} reports`;
  return { outcome: 'key-conflict', dead: { record, refusal: { reason: 'key_conflict', detail } } };
}

/** No ledger will ever store it. */
function unpostable(record: ReceivedRecord, detail: string): RecordOutcome {
  return { outcome: 'unpostable', dead: { record, refusal: { reason: 'unpostable', detail } } };
}
