import type { Logger } from '@triplock/runtime';
import type { RecordBatch } from '@triplock/transport';
import type { WorkerMetrics } from './metrics.ts';
import { settlePayments, type Fate, type SettleParts } from './settle-payments.ts';

/** What consuming payments needs. */
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
      report(parts, batch, await settlePayments(parts, batch));
    },
    onCommitted: () => crashPoints.reached('worker.offset-committed'),
  };
}

const messages: Readonly<Partial<Record<Fate['outcome'], string>>> = {
  'handed-over': 'payments are pending and looked after',
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
    if (outcome === 'posted' || outcome === 'charged' || outcome === 'declined') {
      logger.debug({ partition, outcome, txnIds }, 'payments settled');
    } else if (txnIds.length > 0) {
      const shown = {
        partition,
        outcome,
        count: some.length,
        txnIds: txnIds.slice(0, idsShownMax),
      };
      logger.info(shown, messages[outcome] ?? 'payments were in the ledger before');
    }
  }
  for (const fate of fates) {
    if (!('dead' in fate)) continue;
    const { record, refusal } = fate.dead;
    logger.warn({ partition, offset: `${record.offset}`, ...refusal }, 'record dead-lettered');
  }
}
