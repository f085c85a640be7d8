import type { ClaimOutcome, ClaimRequest, Claims } from '@triplock/claims';
import { until } from '@triplock/demo';
import { type ComparedStore, aFreshClaim, claimAndComplete, warmUp } from './own-stores.ts';

/** What became of acknowledged claims by kill -9 of their store. */
export type Survival = {
  /** Completed and acknowledged before the kill; the last of them in the moment of it. */
  acknowledged: number;
  /** Answered by the store afterwards as before. */
  kept: number;
  /** Gone, and the store says that it cannot know: the ledger is asked. */
  lostNoticed: number;
  /** Gone, and taken for new. Guard 2 has to catch these. */
  lostUnnoticed: number;
  /** Whether the ledger is asked about new keys until it has caught up. */
  coldAfterwards: boolean;
};

/**
 * Kills a store while it is written to, has it up again, and asks it for all that it acknowledged.
 */
export async function killAndCheck(
  store: ComparedStore,
  { atOnce, claims: wanted, signal }: { atOnce: number; claims: number; signal: AbortSignal },
): Promise<Survival> {
  const acknowledged = await acknowledgedUntilKilled(store, { atOnce, wanted });
  const claims = await store.open();
  try {
    const check = () =>
      claims.ping().then(
        () => true,
        () => false,
      );
    await until({ what: `${store.name} to answer again`, signal, check });
    const outcomes: ClaimOutcome['outcome'][] = [];
    for (let from = 0; from < acknowledged.length; from += atOnce) {
      const some = acknowledged.slice(from, from + atOnce);
      const again = await Promise.all(some.map((request) => claims.claim(request)));
      outcomes.push(...again.map(({ outcome }) => outcome));
    }
    const count = (...wantedOnes: ClaimOutcome['outcome'][]) =>
      outcomes.filter((outcome) => wantedOnes.includes(outcome)).length;
    const fresh = await claims.claim(aFreshClaim());
    return {
      acknowledged: acknowledged.length,
      kept: count('completed'),
      lostNoticed: count('cold'),
      // An answer that is gone while its claim is there is as lost.
      lostUnnoticed: count('claimed', 'in-flight', 'reused'),
      coldAfterwards: fresh.outcome === 'cold',
    };
  } finally {
    await claims.close();
  }
}

async function acknowledgedUntilKilled(
  store: ComparedStore,
  { atOnce, wanted }: { atOnce: number; wanted: number },
): Promise<ClaimRequest[]> {
  const claims = await store.open();
  const acknowledged: ClaimRequest[] = [];
  let isKilled = false;
  const enough = Promise.withResolvers<void>();
  const worker = async () => {
    while (!isKilled) {
      const request = aFreshClaim();
      if (!(await tryToComplete(claims, request))) break;
      acknowledged.push(request);
      if (acknowledged.length >= wanted) enough.resolve();
    }
  };
  try {
    await warmUp(claims);
    const workers = Promise.all(Array.from({ length: atOnce }, worker));
    await Promise.race([enough.promise, workers]);
    // They go on writing until the store is gone.
    await store.killAndRestart().finally(() => (isKilled = true));
    await workers;
  } finally {
    await claims.close();
  }
  if (acknowledged.length < wanted) {
    throw new Error(`${store.name} acknowledged ${acknowledged.length} claims and then no more`);
  }
  return acknowledged;
}

/** What is not acknowledged may be lost. */
async function tryToComplete(claims: Claims, request: ClaimRequest): Promise<boolean> {
  return claimAndComplete(claims, request).then(
    () => true,
    () => false,
  );
}
