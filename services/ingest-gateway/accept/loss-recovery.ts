import type { BucketMarker, Claims, Cold, BucketEpoch } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import type { Ledger } from '@triplock/ledger';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import type { TopicOffsets } from '@triplock/transport';
import { watchExpired, watchProgress, writeBarrier, type Progress } from './ledger-progress.ts';

/** What must be known before the ledger's "no such payment" can stand in for a lost claim. */
export type BarrierCheck = {
  /** In which the ledger's answer holds. Ask the ledger after this, never before. */
  epoch: BucketEpoch;
  /** Whether the ledger has posted all of it that was accepted before the loss. */
  caughtUp: boolean;
};

/** What is asked about, and the key of its record: without it the record may be anywhere. */
export type BarrierIds = { txnId: TxnId; recordKey?: TxnId | undefined };

/** A bucket as it was met last, and until when it counts as that, by `performance.now()`. */
type MetCold = { marker: Required<BucketMarker>; untilMs: number };

/** What is done when the claim store lost claims. */
export type LossRecovery = Pick<Progress, 'untilPosted' | 'hasPassed'> & {
  /** A barrier at what is in the topic now. */
  markEnd(): Promise<string>;
  checkBarrier(ids: BarrierIds, cold: Cold): Promise<BarrierCheck>;
  /**
   * The epoch of a bucket that was cold a moment ago, where the ledger had caught up with all under
   * the record's key: what the ledger is asked after this counts in that epoch. Whether it is over
   * since, the claim store says.
   */
  recentEpoch(ids: BarrierIds): BucketEpoch | undefined;
  /**
   * Whether the ledger, asked after this, knows everything under a record's key of which the claim
   * has expired; without a key, everything.
   *
   * @throws when Kafka does not answer.
   */
  expiredArePosted(recordKey?: TxnId): Promise<boolean>;
  /** Notes a loss before a request meets it; does nothing where none is. */
  prepare(): Promise<void>;
};

/** The stores that recovery reads and marks. */
type Stores = {
  claims: Claims;
  ledger: Ledger;
  offsets: Pick<TopicOffsets, 'end' | 'committed' | 'since'>;
  logger: Logger;
};

/** For so long a bucket counts as cold: one that has become warm is asked about for nothing. */
const recentMs = 10_000;

/**
 * Has the topic and the ledger stand in for claims that their store lost. A loss is noted for all
 * buckets at once, by the first request that meets it, and the topic is asked once per loss.
 */
export function recoverLosses(
  stores: Stores,
  limits?: Parameters<typeof watchProgress>[1],
): LossRecovery {
  let noting: Promise<readonly Required<BucketMarker>[]> | undefined;
  // Requests that meet the same loss share one run. One that meets a newer loss may join too: the
  // epoch it gets is then over, and the claim store makes no claim on the ledger's answer.
  const note = () => (noting ??= noteLoss(stores).finally(() => (noting = undefined)));

  const progress = watchProgress(stores.offsets, limits);
  /** Buckets, once their loss was noted. */
  const metCold = new Map<number, MetCold>();
  const expired = watchExpired(stores.offsets);

  return {
    untilPosted: progress.untilPosted,
    hasPassed: progress.hasPassed,
    markEnd: async () => writeBarrier(await stores.offsets.end()),
    expiredArePosted: (recordKey) => expired.arePosted(recordKey),
    async checkBarrier({ txnId, recordKey }, { epoch, barrier }) {
      const bucket = bucketOf(txnId, bucketCount);
      const isNoted = epoch !== undefined && barrier !== undefined;
      const marker = isNoted ? { epoch, barrier } : (await note())[bucket]!;
      // One that was noted just now may have been found warm.
      if (isNoted) metCold.set(bucket, { marker, untilMs: performance.now() + recentMs });
      const caughtUp = await progress.hasPassed(marker.barrier, recordKey);
      return { epoch: marker.epoch, caughtUp };
    },
    recentEpoch({ txnId, recordKey }) {
      const met = metCold.get(bucketOf(txnId, bucketCount));
      if (met === undefined || performance.now() > met.untilMs) return undefined;
      const { epoch, barrier } = met.marker;
      return progress.wasPassed(barrier, recordKey) ? epoch : undefined;
    },
    prepare: async () => void (await note()),
  };
}

/**
 * The order is what makes it safe. First the epochs: from here on another loss is noticed. Then
 * the topic's end: it covers every record whose claim can have been lost. Last the barrier, which
 * the claim store refuses when the epoch is over. Dying in between leaves buckets cold and without
 * a barrier, and the next request to meet them does the same again.
 *
 * What no barrier covers is a record that is under way at the very moment of the loss. Whoever
 * appended it finds its claim lost and claims again before it answers; another body that claimed
 * in between is absorbed by guard 2.
 */
async function noteLoss(stores: Stores): Promise<readonly Required<BucketMarker>[]> {
  const { claims, ledger, offsets, logger } = stores;
  const buckets = Array.from({ length: bucketCount }, (_, bucket) => bucket);
  const noted = await Promise.all(buckets.map((bucket) => claims.noteLoss(bucket)));
  if (noted.every(hasBarrier)) return noted;

  const end = await offsets.end();
  const untouched = end.size > 0 && [...end.values()].every((offset) => offset === 0n);
  // Where nothing was ever accepted nothing can be lost: a new system starts warm.
  const warm = untouched && (await ledger.isEmpty());
  const barrier = writeBarrier(end);
  await Promise.all(
    noted.map(async ({ epoch, barrier: known }, bucket) => {
      if (known === undefined) await claims.setBarrier({ bucket, epoch, barrier, warm });
    }),
  );
  if (warm) logger.info('claims start out empty, and so does the ledger');
  else logger.warn({ barrier }, 'claims were lost, the ledger answers in their place');
  return noted.map((marker) => ({ barrier, ...marker }));
}

function hasBarrier(marker: BucketMarker): marker is Required<BucketMarker> {
  return marker.barrier !== undefined;
}
