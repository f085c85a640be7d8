import { randomUUID } from 'node:crypto';
import type { BucketEpoch, ClaimStore, OwnerToken } from '@triplock/claims';

/**
 * Guard 1 taken away: it remembers nothing, so every request is the first under its key, and is
 * sure of it. For showing what then escapes, and what the guards behind it still hold.
 */
export const noStore = {
  title: 'no store',
  parts: [],
  settings: {},
  needs: { claims: [], walk: [] },
  advice: {},
  settingsAt: () => ({}),
  open: (_settings, { logger }) => {
    logger.warn('CLAIMS is none: every request is treated as the first with its key');
    // An epoch that never ends, with nothing before it: no bucket is ever cold.
    const marker = { epoch: 'none' as BucketEpoch, barrier: '{}' };
    return Promise.resolve({
      claim: async ({ acceptedAt, responseVersion }) => {
        const token = randomUUID() as OwnerToken;
        return { outcome: 'claimed', token, acceptedAt, responseVersion };
      },
      complete: async () => 'completed',
      release: async () => 'released',
      read: async () => ({ outcome: 'unknown' }),
      renewShown: async () => undefined,
      noteLoss: async () => marker,
      setBarrier: async () => undefined,
      markCold: async () => undefined,
      ping: async () => undefined,
      close: async () => undefined,
    });
  },
  walk: async () => ({
    walk: async () => ({ claims: [] }),
    close: async () => undefined,
  }),
  inspect: async () => ({
    look: async () => undefined,
    expire: async () => false,
    forget: async () => ({ command: 'nothing', keys: 0 }),
    count: async () => 0,
    ageMarkers: async () => 0,
    bytesPerClaim: async () => ({ claim: 0, shown: 0 }),
    close: async () => undefined,
  }),
} as const satisfies ClaimStore<Record<never, never>>;
