import type { BucketMarker, Cold, BucketEpoch } from '@triplock/claims';
import type { Item } from './item.ts';
import type { Moment } from './service-clock.ts';

/** What a bucket's silence about an id is worth: nothing while cold, proof when `undefined`. */
export function coldness(
  marker: Item | undefined,
  { tableId, lifeMs, now }: { tableId: string; lifeMs: number; now: Moment },
): Cold | undefined {
  // A marker of another table names no epoch: its time has ended.
  if (marker === undefined || marker['table_id'] !== tableId) return { outcome: 'cold' };
  if (marker['warm'] === true || Number(marker['since']) + lifeMs <= now.earliest) return undefined;
  return { outcome: 'cold', ...readMarker(marker) };
}

/** The epoch and, once it is known, the barrier of a marker. */
export function readMarker({ epoch, barrier }: Item): BucketMarker {
  return {
    epoch: epoch as BucketEpoch,
    ...(barrier !== undefined && { barrier: String(barrier) }),
  };
}
