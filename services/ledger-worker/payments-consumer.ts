import type { Logger } from '@triplock/runtime';
import type { RecordBatch } from '@triplock/transport';
import type { Fate } from './fate.ts';
import type { WorkerMetrics } from './metrics.ts';
import { settleBatch, type SettleParts } from './settle-batch.ts';

/** What consuming the accepted topic needs. */
export type ConsumerParts = SettleParts & { metrics: WorkerMetrics; logger: Logger };

/** The two calls that a consumer makes for each batch: handle it, and tell that it was committed. */
export type PaymentsHandler = {
  handle(batch: RecordBatch): Promise<void>;
  onCommitted(): Promise<void>;
};

/** Settles each batch of the accepted topic and reports what became of its records. */
export function paymentsHandler(parts: ConsumerParts): PaymentsHandler {
  const { crashPoints } = parts;
  return {
    handle: async (batch) => {
      await crashPoints.reached('worker.polled');
      report(parts, batch, await settleBatch(parts, batch));
    },
    onCommitted: () => crashPoints.reached('worker.offset-committed'),
  };
}

/** What is the rule, and so a line only for whoever asks for every one. */
const usual: ReadonlySet<Fate['outcome']> = new Set([
  'posted',
  'charged',
  'declined',
  'refunded',
  'refund-failed',
]);

const messages: Readonly<Partial<Record<Fate['outcome'], string>>> = {
  'handed-over': 'transactions are pending and looked after',
  'refund-waiting': 'refunds wait for their payments',
};

// Enough ids to follow one up; a replay of a whole topic would fill the log with the others.
const idsShownMax = 10;

function report(
  { metrics, logger }: ConsumerParts,
  { partition }: RecordBatch,
  fates: readonly Fate[],
): void {
  for (const [outcome, some] of Map.groupBy(fates, (fate) => fate.outcome)) {
    metrics.records.inc({ outcome }, some.length);
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
      logger.info(shown, messages[outcome] ?? 'transactions were in the ledger before');
    }
  }
  for (const fate of fates) {
    if (!('dead' in fate)) continue;
    const { record, refusal } = fate.dead;
    logger.warn({ partition, offset: `${record.offset}`, ...refusal }, 'record dead-lettered');
  }
}
