import { decodeAccepted } from '@triplock/contracts';
import {
  UnpostableError,
  type Ledger,
  type Posting,
  type PostOutcome,
  type FollowUpPosting,
} from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp, TxnId } from '@triplock/payments';
import {
  inBatches,
  inBatchSpan,
  isTracing,
  openSpan,
  untracedSpan,
  type OpenSpan,
} from '@triplock/runtime';
import { providerOf } from '@triplock/providers';
import type { ReceivedRecord, Refusal } from '@triplock/transport';
import type { FollowUpOutcomeName } from '../kinds/outcomes.ts';
import type { WorkerMetrics } from '../metrics.ts';

/** A record of a payment, as it is to be posted, and the span in which it is taken to its end. */
export type PaymentRecord = { record: ReceivedRecord; posting: Posting; span: OpenSpan };

/** A record of a follow-up, as it is to be posted, and the span in which it is taken to its end. */
export type FollowUpRecord = { record: ReceivedRecord; posting: FollowUpPosting; span: OpenSpan };

/** A record that can never be posted, and why. */
export type DeadRecord = { record: ReceivedRecord; refusal: Refusal };

/**
 * What became of a record: its transaction is final in the ledger, or pending there and looked
 * after by the resolver, or it is a dead letter.
 */
export type RecordOutcome =
  | { outcome: FinalOutcome | PendingOutcome; txnId: TxnId }
  | { outcome: 'refused' | 'key-conflict' | 'unpostable'; dead: DeadRecord };

/** The transaction is final: by this record, or by one before it (`already-recorded`). */
export type FinalOutcome =
  | ('posted' | 'resumed' | 'charged' | 'declined' | 'already-recorded')
  | FollowUpOutcomeName<'succeeded' | 'failed'>;

/** The row is pending, durable and looked after; what follows a payment also waits for it. */
export type PendingOutcome = 'handed-over' | FollowUpOutcomeName<'waiting'>;

/** Records by their kind; each kind keeps its order. */
export type DecodedRecords = {
  payments: PaymentRecord[];
  followUps: FollowUpRecord[];
  refused: DeadRecord[];
};

/** Sorts records into payments, what follows them, and those that are neither. */
export function decodeRecords(records: readonly ReceivedRecord[]): DecodedRecords {
  const settledAt = new Date();
  const sorted: DecodedRecords = { payments: [], followUps: [], refused: [] };
  for (const record of records) {
    const decoded = decodeAccepted(record);
    switch (decoded.outcome) {
      case 'payment': {
        const posting = postingOf({ ...decoded, settledAt });
        sorted.payments.push({ record, ...openRecordSpan(record, decoded.payment, posting) });
        break;
      }
      case 'follow-up': {
        const { followUp, traceparent } = decoded;
        const posting = { followUp, traceparent, settledAt };
        sorted.followUps.push({ record, ...openRecordSpan(record, followUp, posting) });
        break;
      }
      case 'refused': {
        const { reason, detail } = decoded;
        sorted.refused.push({ record, refusal: { reason, detail } });
        break;
      }
      default:
        decoded satisfies never;
    }
  }
  return sorted;
}

/**
 * Opens the span of one record, in the trace that the record came with. What is stored with the
 * transaction and its event continues it, whoever goes on with them, and whenever.
 */
function openRecordSpan<AnyPosting extends { traceparent: string }>(
  { topic, partition, offset }: ReceivedRecord,
  { txnId, partnerId }: AcceptedPayment | AcceptedFollowUp,
  posting: AnyPosting,
): { posting: AnyPosting; span: OpenSpan } {
  if (!isTracing()) return { posting, span: untracedSpan };
  const span = openSpan({
    name: `process ${topic}`,
    kind: 'consumer',
    parent: posting.traceparent,
    attributes: {
      'messaging.system': 'kafka',
      'messaging.operation.type': 'process',
      'messaging.operation.name': 'process',
      'messaging.destination.name': topic,
      'messaging.destination.partition.id': String(partition),
      'messaging.kafka.offset': Number(offset),
      'triplock.txn_id': txnId,
      'triplock.partner_id': partnerId,
    },
  });
  return { posting: { ...posting, traceparent: span.carried(posting.traceparent) }, span };
}

/** What posting one payment came to; `unpostable`: no ledger will ever store it. */
export type PostResult = PostOutcome | { outcome: 'unpostable'; detail: string };

/** Posts payments and returns, in the same order, what came of each. @throws in an outage. */
export type PostPayments = (postings: readonly Posting[]) => Promise<readonly PostResult[]>;

/**
 * `rowsMax` payments go by one statement, `statementsMax` statements at once. One that is not full
 * begins `apartMs` milliseconds after the one before it (0 by default), so that more goes by each.
 */
export type PostLimits = { rowsMax: number; statementsMax: number; apartMs?: number };

/**
 * Posts by statements that partitions share: the records of a dozen partitions come in small
 * batches at once, and a statement costs the same for five payments as for fifty. What went
 * together fails together, and each partition then tries its own again.
 *
 * A call is never split, so it should itself stay within `rowsMax`. Only when a statement has a
 * payment that can never be stored is it done by several.
 */
export function openPosting(
  { ledger, metrics }: { ledger: Ledger; metrics: WorkerMetrics },
  { rowsMax, statementsMax, apartMs = 0 }: PostLimits,
): PostPayments {
  const run = (postings: readonly Posting[]): Promise<PostResult[]> => {
    metrics.statementRows.observe(postings.length);
    const of = () => postings.map(({ traceparent }) => traceparent);
    return metrics.statementSeconds.time(
      () => inBatchSpan({ name: 'post batch', of }, () => ledger.post(postings)),
      () => 'done',
      'failed',
    );
  };
  const postTogether = async (calls: readonly (readonly Posting[])[]) => {
    const results = await bisectBatch(calls.flat(), { run, blame });
    let from = 0;
    return calls.map(({ length }) => results.slice(from, (from += length)));
  };
  return inBatches(postTogether, {
    itemsMax: rowsMax,
    apartMs,
    countOf: (postings) => postings.length,
    batchesMax: statementsMax,
  });
}

/** Posting that is watched, and whether the ledger takes it. */
export type WatchedPosting = {
  post: PostPayments;
  /** @throws with the last error, while statement after statement fails. */
  requireWritable(): void;
};

// One or two fail by a deadlock, or by a server that is started again.
const failuresMax = 2;
// Their batches come again within seconds; if not, another worker has the partition.
const forgottenAfterMs = 60_000;

/**
 * Notes whether payments can be posted. A server whose disk is full, or that became a standby,
 * answers everything that only reads, so asking it does not tell.
 */
export function watchPosting(post: PostPayments): WatchedPosting {
  let failed = { inARow: 0, lastMs: 0, error: undefined as unknown };
  return {
    async post(postings) {
      try {
        const results = await post(postings);
        failed = { ...failed, inARow: 0 };
        return results;
      } catch (error) {
        // Partitions share a statement, and each is told what became of it.
        const inARow = failed.inARow + (error === failed.error ? 0 : 1);
        failed = { inARow, lastMs: performance.now(), error };
        throw error;
      }
    },
    requireWritable() {
      const { inARow, lastMs, error } = failed;
      if (inARow <= failuresMax || performance.now() - lastMs > forgottenAfterMs) return;
      throw new Error(
        `takes no writes, ${inARow} failed in a row (is its disk full, is it a standby?): ${String(error)}`,
      );
    },
  };
}

function blame(error: unknown): PostResult | undefined {
  if (!(error instanceof UnpostableError)) return undefined;
  return { outcome: 'unpostable', detail: error.message };
}

/** What to do with a batch, and what an error that blames one of its items gives for that item. */
type BatchAttempt<Item, Result> = {
  run(items: readonly Item[]): Promise<Result[]>;
  /**
   * The result for an item that alone failed so, or `undefined` when the error is no item's fault.
   */
  blame(error: unknown): Result | undefined;
};

/**
 * Runs a batch; when one of it is to blame for a failure, runs its halves, one after the other, and
 * so on until the bad ones stand alone. Results come in the order of the items. One bad item among
 * n costs about 2·log2(n) more runs and nothing for the others.
 *
 * @throws what is no item's fault, such as an outage.
 */
export async function bisectBatch<Item, Result>(
  items: readonly Item[],
  attempt: BatchAttempt<Item, Result>,
): Promise<Result[]> {
  try {
    return await attempt.run(items);
  } catch (error) {
    const blamed = attempt.blame(error);
    if (blamed === undefined) throw error;
    if (items.length === 1) return [blamed];
    const middle = Math.ceil(items.length / 2);
    // In order, because an item may be a duplicate of one before it.
    const first = await bisectBatch(items.slice(0, middle), attempt);
    return [...first, ...(await bisectBatch(items.slice(middle), attempt))];
  }
}

/** A posting that brings its own settlement, because no provider has to be asked. */
export type BookTransfer = Posting & { settlement: NonNullable<Posting['settlement']> };

/** A payment as it was accepted, and when it is settled if no provider has to be asked. */
export type Accepted = { payment: AcceptedPayment; traceparent: string; settledAt: Date };

/**
 * Posts what a provider is to charge as pending, by whose name is on the row from then on, and
 * settles any other payment by one statement.
 */
function postingOf(accepted: Accepted): Posting {
  const { payment, traceparent } = accepted;
  const { paymentMethod } = payment.details;
  const provider = paymentMethod === undefined ? undefined : providerOf(payment.details);
  return provider === undefined ? bookTransferOf(accepted) : { payment, traceparent, provider };
}

/** Posts a payment and settles it as succeeded, as of `settledAt`, by one statement. */
export function bookTransferOf(accepted: Accepted): BookTransfer {
  const { payment, traceparent, settledAt } = accepted;
  return { payment, traceparent, settlement: { result: { state: 'succeeded' }, settledAt } };
}

/** Whether a posting settles itself. */
export function isBookTransfer(posting: Posting): posting is BookTransfer {
  return posting.settlement !== undefined;
}
