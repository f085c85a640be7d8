import { randomUUID } from 'node:crypto';
import type { Claims, BucketEpoch, OwnerToken } from './claims.ts';

/**
 * Guard 1 taken away: it remembers nothing, so every request is the first under its key, and is
 * sure of it. For showing what then escapes, and what the guards behind it still hold.
 */
export function openNoClaims(): Claims {
  // An epoch that never ends, with nothing before it: no bucket is ever cold.
  const marker = { epoch: 'none' as BucketEpoch, barrier: '{}' };
  return {
    claim: async ({ acceptedAt }) => {
      return { outcome: 'claimed', token: randomUUID() as OwnerToken, acceptedAt };
    },
    complete: async () => 'completed',
    release: async () => 'released',
    read: async () => ({ outcome: 'unknown' }),
    noteLoss: async () => marker,
    setBarrier: async () => undefined,
    markCold: async () => undefined,
    ping: async () => undefined,
    close: async () => undefined,
  };
}
