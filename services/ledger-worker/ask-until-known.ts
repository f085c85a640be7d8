import type { Unknown } from '@triplock/provider';
import type { Logger } from '@triplock/runtime';
import type { Turn } from './hand-over.ts';
import type { WorkerMetrics } from './metrics.ts';

/** Who waits for an answer, and for how long, milliseconds. */
export type AskingParts = {
  handOverMs: number;
  metrics: Pick<WorkerMetrics, 'unknownAge'>;
  logger: Logger;
};

/** One transaction to ask the provider for. */
export type Asking<Fate extends string> = {
  transaction: { txnId: string; acceptedAt: Date };
  /** `again`: not the first attempt, so another worker may have been at work meanwhile. */
  attempt(again: boolean): Promise<Fate | Unknown>;
  turn: Pick<Turn, 'letGo' | 'rest'>;
};

/**
 * Rests before a call whose outcome is unknown is made again; after the last try the resolver has
 * it. Seconds apart, because each try uses up one fresh key at most, and all within the time for
 * which a pending row is its poster's own where places are free.
 */
const restsMs = [1_000, 3_000];

/** A provider that wants to be left alone for longer, the resolver asks. */
const longestRestMs = Math.max(...restsMs);

/**
 * Asks until the answer is known. What was not even sent, because the provider is left alone, is
 * tried again as long as the batch waits. What was sent and is not known is no longer waited for,
 * and asked a few times more: most errors are gone a second later, and the resolver comes later.
 */
export async function askUntilKnown<Fate extends string>(
  { handOverMs, metrics, logger }: AskingParts,
  { transaction, attempt, turn }: Asking<Fate>,
): Promise<Fate | 'handed-over'> {
  const { txnId, acceptedAt } = transaction;
  const deadline = performance.now() + handOverMs;
  const rests = restsMs.values();
  for (let again = false; ; again = true) {
    const fate = await attempt(again);
    if (typeof fate === 'string') return fate;
    const { error, sent, retryAfterMs = 0 } = fate;
    const late = performance.now() + retryAfterMs >= deadline;
    const isOver = sent ? retryAfterMs > longestRestMs : late;
    const rest = isOver ? undefined : sent ? rests.next().value : 0;
    if (sent) turn.letGo();
    if (sent || late) {
      metrics.unknownAge.observe((Date.now() - acceptedAt.getTime()) / 1_000);
      logger.warn({ err: error, txnId }, 'the outcome at the provider is unknown');
    }
    if (rest === undefined) return 'handed-over';
    await turn.rest(Math.max(rest, retryAfterMs));
  }
}
