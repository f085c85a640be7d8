import { claimLifeMs } from '@triplock/contracts';
import { followUpKinds } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import {
  commandToSet,
  type LogGap,
  type RecordBatch,
  type SkippedOffsets,
  type TopicCheck,
  type TopicRetention,
} from '@triplock/transport';
import type { Ahead } from './ahead.ts';
import { followUpOutcomes } from '../kinds/outcomes.ts';
import type { WorkerMetrics } from '../metrics.ts';
import type { RecordOutcome } from './posting.ts';
import { settleBatch } from './settling.ts';
import type { Worker } from '../worker.ts';

/**
 * The calls that a consumer makes: what was lost before it began, that it joined, which partitions
 * it has, for each batch two, and one for offsets without a record.
 */
export type PaymentsHandler = {
  onLost(gap: LogGap): void;
  onJoined(): void;
  onAssigned(partitions: readonly number[]): void;
  handle(batch: RecordBatch): Promise<void>;
  onCommitted(batch: RecordBatch): Promise<void>;
  onSkipped(skipped: SkippedOffsets): Promise<void>;
};

/** Settles each batch of the accepted topic and reports what became of its records. */
export function paymentsHandler(worker: Worker, ahead: Ahead): PaymentsHandler {
  const { crashPoints, logger, metrics } = worker;
  const lag = meterLag(metrics);
  const settle = async (batch: RecordBatch) => {
    await crashPoints.reached('worker.polled');
    await settleAndReport(worker, { ...batch, records: await ahead.rest(batch) });
  };
  return {
    onLost: ({ partition, from, to, why }) => {
      metrics.lost.inc(Number(to - from));
      const gap = { partition, from: String(from), to: String(to), why };
      logger.error(gap, 'Kafka lost accepted records that no worker had read');
    },
    onJoined: () => metrics.joins.count('accepted'),
    onAssigned: (partitions) => {
      lag.assigned(partitions);
      ahead.assigned(partitions);
    },
    handle: async (batch) => {
      const begun = { ...batch, next: batch.records[0]!.offset };
      lag.at(begun);
      ahead.at(begun);
      await ahead.begun(batch.partition);
      await metrics.batchSeconds.time(
        () => settle(batch),
        () => 'settled',
        'failed',
      );
    },
    onCommitted: async (batch) => {
      lag.at(batch);
      ahead.passed(batch);
      await crashPoints.reached('worker.offset-committed');
    },
    onSkipped: async (skipped) => lag.at(skipped),
  };
}

/** Takes a batch to its end and reports what became of its records. @throws in an outage. */
export async function settleAndReport(worker: Worker, batch: RecordBatch): Promise<void> {
  reportRecords(worker, batch, await settleBatch(worker, batch));
}

/** The normal outcomes, logged at `debug` only. */
const usual: ReadonlySet<RecordOutcome['outcome']> = new Set([
  'posted',
  'charged',
  'declined',
  ...followUpKinds.flatMap((kind) => [
    followUpOutcomes[kind].succeeded,
    followUpOutcomes[kind].failed,
  ]),
]);

const messages: Readonly<Partial<Record<RecordOutcome['outcome'], string>>> = {
  'handed-over': 'transactions are pending, their work goes on',
  ...Object.fromEntries(
    followUpKinds.map((kind) => [
      followUpOutcomes[kind].waiting,
      `${kind}s wait for their payments`,
    ]),
  ),
};

// Enough ids to follow one up; a replay of a whole topic would fill the log with the others.
const idsShownMax = 10;

/** Counts and logs what became of a batch's records, which may all have been done ahead. */
export function reportRecords(
  { metrics, logger }: Worker,
  { partition, records }: RecordBatch,
  outcomes: readonly RecordOutcome[],
): void {
  if (records.length === 0) return;
  // Kafka's own time of a record, in milliseconds: when the broker got it.
  metrics.recordAge.observe((Date.now() - Number(records[0]!.timestamp)) / 1_000);
  for (const [outcome, some] of Map.groupBy(outcomes, (each) => each.outcome)) {
    metrics.records.count(outcome, some.length);
    const txnIds = some.flatMap((each) => ('txnId' in each ? each.txnId : []));
    if (usual.has(outcome)) {
      logger.debug({ partition, outcome, txnIds }, 'transactions settled');
    } else if (txnIds.length > 0) {
      const shown = {
        partition,
        outcome,
        count: some.length,
        txnIds: txnIds.slice(0, idsShownMax),
      };
      logger.info(shown, messages[outcome] ?? 'transactions were already in the ledger');
    }
  }
  for (const each of outcomes) {
    if (!('dead' in each)) continue;
    const { record, refusal } = each.dead;
    logger.warn({ partition, offset: `${record.offset}`, ...refusal }, 'record dead-lettered');
  }
}

/** Keeps the lag of each partition that is this worker's, by what its own fetches show. */
export type LagMeter = {
  /** The group was joined: what is not assigned any more is another worker's to report. */
  assigned(partitions: readonly number[]): void;
  /** How far a partition is, and where it ends. */
  at(progress: Pick<RecordBatch, 'partition' | 'next' | 'end'>): void;
};

/**
 * Opens a meter. A partition that nothing was fetched from has no lag that this worker knows of.
 */
export function meterLag({ lag }: WorkerMetrics): LagMeter {
  const own = new Set<number>();
  return {
    assigned: (partitions) => {
      for (const partition of own) if (!partitions.includes(partition)) lag.remove({ partition });
      for (const partition of partitions) if (!own.has(partition)) lag.set({ partition }, 0);
      own.clear();
      for (const partition of partitions) own.add(partition);
    },
    at: ({ partition, next, end }) => {
      // Of a batch that outlived its assignment the next owner knows better.
      if (own.has(partition)) lag.set({ partition }, Number(end - next));
    },
  };
}

const hourMs = 3_600_000;

/**
 * Holds the accepted topic's retention against the life of a claim. For a day a retry is answered
 * from the claim alone: a record that the topic dropped unread within that day would be promised
 * again and again, and posted never.
 *
 * @throws with one sentence when the topic may drop records too early: the service must not run so.
 */
export function checkRetention(
  where: Pick<TopicCheck, 'brokers' | 'topic'>,
  retention: TopicRetention,
  logger: Logger,
): void {
  const { topic } = where;
  if (retention.outcome === 'unknown') {
    const { why } = retention;
    logger.warn({ topic, why }, 'Kafka did not report its retention: not checked');
    return;
  }
  const { retentionMs, retentionBytes, keepsEveryRecord, stampedBy } = retention;
  if (!keepsEveryRecord) {
    throw new Error(
      `topic ${topic} is compacted and may drop unread payments: set it with ${commandToSet(where, 'cleanup.policy=delete')}`,
    );
  }
  if (stampedBy === 'producer') {
    throw new Error(
      `topic ${topic} has the time of its records from those who append them, and drops early what one with a slow clock appends: ` +
        `set it with ${commandToSet(where, 'message.timestamp.type=LogAppendTime')}`,
    );
  }
  if (retentionMs <= claimLifeMs) {
    throw new Error(
      `topic ${topic} keeps records for ${Math.floor(retentionMs / hourMs)} hours (retention.ms): it must be more than the 24 hours for which a claim answers retries, as by ${commandToSet(where, `retention.ms=${7 * 24 * hourMs}`)}`,
    );
  }
  if (retentionBytes !== Infinity) {
    const message = 'the accepted topic is limited in size and may drop payments before their time';
    logger.warn({ topic, retentionBytes }, message);
  }
}
