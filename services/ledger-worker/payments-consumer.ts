import type { Logger } from '@triplock/runtime';
import type { RecordBatch } from '@triplock/transport';
import type { Fate } from './fate.ts';
import { meterLag } from './measure-lag.ts';
import type { WorkerMetrics } from './metrics.ts';
import { settleBatch, type SettleParts } from './settle-batch.ts';

/** What consuming the accepted topic needs. */
export type ConsumerParts = SettleParts & { metrics: WorkerMetrics; logger: Logger };

/** The calls that a consumer makes: which partitions it has, and for each batch two. */
export type PaymentsHandler = {
  onAssigned(partitions: readonly number[]): void;
  handle(batch: RecordBatch): Promise<void>;
  onCommitted(batch: RecordBatch): Promise<void>;
};

/** Settles each batch of the accepted topic and reports what became of its records. */
export function paymentsHandler(parts: ConsumerParts): PaymentsHandler {
  const { crashPoints, metrics } = parts;
  const lag = meterLag(metrics);
  const settle = async (batch: RecordBatch) => {
    await crashPoints.reached('worker.polled');
    report(parts, batch, await settleBatch(parts, batch));
  };
  return {
    onAssigned: lag.assigned,
    handle: async (batch) => {
      lag.saw(batch, 'in-hand');
      await metrics.batchSeconds.time(
        () => settle(batch),
        () => 'settled',
        'failed',
      );
    },
    onCommitted: async (batch) => {
      lag.saw(batch, 'committed');
      await crashPoints.reached('worker.offset-committed');
    },
  };
}

/** The normal outcomes, logged at `debug` only. */
const usual: ReadonlySet<Fate['outcome']> = new Set([
  'posted',
  'charged',
  'declined',
  'refunded',
  'refund-failed',
]);

const messages: Readonly<Partial<Record<Fate['outcome'], string>>> = {
  'handed-over': 'transactions are pending, their work goes on',
  'refund-waiting': 'refunds wait for their payments',
};

// Enough ids to follow one up; a replay of a whole topic would fill the log with the others.
const idsShownMax = 10;

function report(
  { metrics, logger }: ConsumerParts,
  { partition, records }: RecordBatch,
  fates: readonly Fate[],
): void {
  // Kafka's own time of a record, in milliseconds: when the gateway appended it.
  metrics.recordAge.observe((Date.now() - Number(records[0]!.timestamp)) / 1_000);
  for (const [outcome, some] of Map.groupBy(fates, (fate) => fate.outcome)) {
    metrics.records.count(outcome, some.length);
    const txnIds = some.flatMap((fate) => ('txnId' in fate ? fate.txnId : []));
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
  for (const fate of fates) {
    if (!('dead' in fate)) continue;
    const { record, refusal } = fate.dead;
    logger.warn({ partition, offset: `${record.offset}`, ...refusal }, 'record dead-lettered');
  }
}
