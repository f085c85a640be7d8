import { setTimeout as delay } from 'node:timers/promises';
import type { Unknown } from '@triplock/provider';
import type { Logger } from '@triplock/runtime';
import type { WorkerMetrics } from './metrics.ts';

/** Who waits for an answer, and for how long, milliseconds. */
export type TryParts = {
  handOverMs: number;
  metrics: Pick<WorkerMetrics, 'unknownAge'>;
  logger: Logger;
};

/** One transaction to ask the provider for. */
export type Asking<Fate extends string> = {
  transaction: { txnId: string; acceptedAt: Date };
  /** `again`: not the first attempt, so somebody else may have been at work meanwhile. */
  attempt(again: boolean): Promise<Fate | Unknown>;
};

/**
 * Tries again what was not even sent, because the provider is left alone, as long as the batch
 * waits. What was sent and is not known is handed over, to be looked up later.
 */
export async function tryUntilSent<Fate extends string>(
  { handOverMs, metrics, logger }: TryParts,
  { transaction, attempt }: Asking<Fate>,
): Promise<Fate | 'handed-over'> {
  const deadline = performance.now() + handOverMs;
  for (let again = false; ; again = true) {
    const fate = await attempt(again);
    if (typeof fate === 'string') return fate;
    const { error, sent, retryAfterMs = 0 } = fate;
    if (sent || performance.now() + retryAfterMs >= deadline) {
      const { txnId, acceptedAt } = transaction;
      metrics.unknownAge.observe((Date.now() - acceptedAt.getTime()) / 1_000);
      logger.warn({ err: error, txnId }, 'what the provider did is unknown');
      return 'handed-over';
    }
    await delay(retryAfterMs);
  }
}
