import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inspectClaims, provisionClaimStore, storeNamed } from '@triplock/claim-stores';
import type { ClaimRequest, Claims, ClaimsInspector } from '@triplock/claims';
import {
  type ClaimStore,
  bringUpParts,
  claimStoreAt,
  claimStores,
  continueProcess,
  killProcess,
  pauseProcess,
  type PartEndpoints,
  provisionDatabase,
  takeDown,
  withLock,
} from '@triplock/launcher';
import type { Terminal } from '@triplock/command';
import { createLogger } from '@triplock/runtime';
import { bucketCount, renderPending, responseVersion } from '@triplock/contracts';
import { type PaymentWish, aPayment, longestFields } from '@triplock/testing';

/** A claim store that is compared, and what only this machine's owner can do to it. */
export type ComparedStore = {
  name: ClaimStore;
  /** Under another namespace, claims of their own. */
  open(namespace?: string): Promise<Claims>;
  /** The store, past its claims. */
  reach(namespace?: string): Promise<ClaimsInspector>;
  /** kill -9 of every server that it consists of, and all of them up again. */
  killAndRestart(): Promise<void>;
};

const home = resolve(import.meta.dirname, '../../.triplock/compare');

/** Runs `work` on one of each store, used by nothing else and gone afterwards. */
export async function onOwnStores<Result>(
  { terminal, signal }: { terminal: Terminal; signal: AbortSignal },
  work: (stores: readonly ComparedStore[]) => Promise<Result>,
): Promise<Result> {
  const report = (line: string) => terminal.progress(line);
  const down = () => takeDown({ home, data: 'forget', report });
  mkdirSync(home, { recursive: true });
  return withLock(join(home, 'compare.lock'), { report, signal }, async () => {
    // What one that was killed has left.
    await down();
    try {
      terminal.note('starting the stores');
      return await work(await startStores({ report, signal }));
    } finally {
      await down();
      terminal.clear();
    }
  });
}

type Starting = { report: (line: string) => void; signal: AbortSignal };

/**
 * What the launcher starts beside the stores and no claim needs: it stands still, using nothing.
 */
const bystanders = ['kafka', 'pubsub'];

async function startStores({ report, signal }: Starting): Promise<ComparedStore[]> {
  const start = async () => {
    // Each brings the servers that only it needs.
    const parts = {} as PartEndpoints;
    for (const claims of claimStores) {
      Object.assign(parts, await bringUpParts({ home, claims, report, signal }));
    }
    for (const name of bystanders) await pauseProcess({ home, name });
    return parts;
  };
  const parts = await start();
  const { roles, owner } = await provisionDatabase(
    { url: parts.postgres, origin: 'native' },
    report,
  );
  const at = (name: ClaimStore, postgres: string, namespace: string) =>
    claimStoreAt(name, { ...parts, postgres }, namespace);
  for (const name of claimStores) await provisionClaimStore(at(name, owner, name));

  const logger = createLogger({ service: 'compare', instance: 'compare', level: 'silent' });
  const open = (name: ClaimStore, namespace: string): Promise<Claims> => {
    // A slow answer is a figure here, and no outage.
    const answerTimeoutMs = 30_000;
    // And all claims are one partner's.
    const limits = { claimsPerPartner: 1_000_000_000, shownBytesPerPartner: 1_000_000_000_000 };
    const named = { namespace, logger, applicationName: 'compare', answerTimeoutMs, ...limits };
    return storeNamed(name).open(at(name, roles.claims, namespace), named);
  };
  return claimStores.map((name) => ({
    name,
    open: (namespace = name) => open(name, namespace),
    reach: (namespace = name) => inspectClaims(at(name, owner, namespace)),
    killAndRestart: async () => {
      for (const server of storeNamed(name).parts) await killProcess({ home, name: server });
      for (const each of bystanders) await continueProcess({ home, name: each });
      await start();
    },
  }));
}

/** What is shown of an ordinary payment, and of one of which every text is as long as it may be. */
const shownOf = (wish: PaymentWish) => JSON.stringify(renderPending(aPayment(wish)));
export const bodies = {
  ordinary: shownOf({ reference: 'order-1001', metadata: { basket: '7f3a' } }),
  longest: shownOf(longestFields),
};

/** A claim that was never made before. */
export function aFreshClaim(shown = bodies.ordinary): ClaimRequest {
  const { txnId, partnerId, kind, fingerprint } = aPayment();
  const whose = { txnId, partnerId, kind, fingerprint, recordKey: txnId };
  return { ...whose, responseVersion, shown, acceptedAt: new Date() };
}

/** Has every bucket remember without a gap, as on a new system. */
export async function warmUp(claims: Claims): Promise<void> {
  for (let bucket = 0; bucket < bucketCount; bucket += 1) {
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: '{}', warm: true });
  }
}

/** Claims and completes, and gives how long the claim alone took, milliseconds. */
export async function claimAndComplete(claims: Claims, request: ClaimRequest): Promise<number> {
  const began = performance.now();
  const claimed = await claims.claim(request);
  const tookMs = performance.now() - began;
  if (claimed.outcome !== 'claimed') throw new Error(`a fresh claim is ${claimed.outcome}`);
  const { txnId } = request;
  const completed = await claims.complete({ txnId, token: claimed.token });
  if (completed !== 'completed') throw new Error('a completion is lost');
  return tookMs;
}

/** Does the work again and again, so many at once, until the time is over or the signal aborted. */
export async function keepBusy(
  { atOnce, ms, signal }: { atOnce: number; ms: number; signal: AbortSignal },
  work: () => Promise<void>,
): Promise<void> {
  const until = performance.now() + ms;
  const worker = async () => {
    while (performance.now() < until && !signal.aborted) await work();
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  signal.throwIfAborted();
}
