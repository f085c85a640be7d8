import type { Claims, Cold, MemoryEpoch } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import type { Ledger } from '@triplock/ledger';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import type { TopicOffsets } from '@triplock/transport';
import { writeBarrier, type Progress } from './watch-progress.ts';

/** What must be known before the ledger's "no such payment" can stand in for a lost memory. */
export type Recollection = {
  /** In which the ledger's word holds. Ask the ledger after this, never before. */
  epoch: MemoryEpoch;
  /** Whether the ledger has posted everything that was accepted before the loss. */
  caughtUp: boolean;
};

/** What is done when the claim store forgot. */
export type Memory = { recollect(txnId: TxnId, cold: Cold): Promise<Recollection> };

/** What recovering stands on. */
export type MemoryParts = {
  claims: Pick<Claims, 'noteLoss' | 'setBarrier'>;
  ledger: Pick<Ledger, 'isEmpty'>;
  offsets: Pick<TopicOffsets, 'end'>;
  progress: Progress;
  logger: Logger;
  /** Called whenever a request meets a cold bucket. */
  onCold(): void;
};

type Loss = { epochs: readonly MemoryEpoch[]; barrier: string };

/**
 * Recovers the memory of a claim store from the topic and the ledger. A loss is noted for all
 * buckets at once, by whoever meets it first, and the topic is asked once per loss.
 */
export function recoverMemory(parts: MemoryParts): Memory {
  let noting: Promise<Loss> | undefined;
  // Requests that meet the same loss share one run. One that meets a newer loss may join too: the
  // epoch it gets is then over, and the claim store does not take the ledger's word for it.
  const note = () => (noting ??= noteLoss(parts).finally(() => (noting = undefined)));

  return {
    async recollect(txnId, { epoch, barrier }) {
      parts.onCold();
      const bucket = bucketOf(txnId, bucketCount);
      if (epoch !== undefined && barrier !== undefined) {
        return { epoch, caughtUp: await parts.progress.hasPassed(barrier) };
      }
      const loss = await note();
      const caughtUp = await parts.progress.hasPassed(loss.barrier);
      return { epoch: loss.epochs[bucket]!, caughtUp };
    },
  };
}

/**
 * The order is what makes it safe. First the epochs: from here on another loss is noticed. Then
 * the topic's end: it covers every record whose claim can have been lost. Last the barrier, which
 * the claim store refuses when the epoch is over. Dying in between leaves buckets cold and without
 * a barrier, and the next request to meet them does the same again.
 *
 * What no barrier covers is a record that is under way at the very moment of the loss; guard 2
 * absorbs it.
 */
async function noteLoss({ claims, ledger, offsets, logger }: MemoryParts): Promise<Loss> {
  const buckets = Array.from({ length: bucketCount }, (_, bucket) => bucket);
  const epochs = await Promise.all(buckets.map((bucket) => claims.noteLoss(bucket)));
  const end = await offsets.end();
  const untouched = end.size > 0 && [...end.values()].every((offset) => offset === 0n);
  // Where nothing was ever accepted nothing can be lost: a new system starts warm.
  const warm = untouched && (await ledger.isEmpty());
  const barrier = writeBarrier(end);
  await Promise.all(
    buckets.map((bucket) => claims.setBarrier({ bucket, epoch: epochs[bucket]!, barrier, warm })),
  );
  logger.warn(
    { barrier, warm },
    warm ? 'claims start empty' : 'claims were lost, asking the ledger',
  );
  return { epochs, barrier };
}
