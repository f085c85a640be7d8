import { claimTimes, type BucketEpoch, type Claims } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import type { Ledger } from '@triplock/ledger';
import {
  bucketOf,
  deriveTxnId,
  type IdempotencyKey,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import { runLoop, type Logger, type Service } from '@triplock/runtime';
import { openKeyFilter, type KeyFilter } from './key-filter.ts';
import type { LossRecovery } from './loss-recovery.ts';

/**
 * What this gateway is at after a loss. `under-way`: what was claimed before may be appended until
 * then, by `performance.now()`. `waiting`: not all of it is posted. `reading`: which keys were used
 * is read from the ledger, this part of the last day so far.
 */
export type ReadBackState =
  | { state: 'warm' }
  | { state: 'cold'; step: 'under-way'; untilMs: number }
  | { state: 'cold'; step: 'waiting' }
  | { state: 'cold'; step: 'reading'; part: number };

/** How much of the last day is still to be read: 0 when warm, 1 before the ledger is read. */
export function partLeft(state: ReadBackState): number {
  if (state.state === 'warm') return 0;
  return state.step === 'reading' ? 1 - state.part : 1;
}

/** What is left to do of a cold one, in a person's words. */
export function describeLeft(state: ReadBackState): string {
  if (state.state === 'cold' && state.step === 'under-way') {
    const seconds = Math.max(0, Math.ceil((state.untilMs - performance.now()) / 1_000));
    return `waits ${seconds} s for what was under way at the loss`;
  }
  const left = partLeft(state);
  if (left === 1) return 'waits until all is posted that was accepted before the loss';
  return `${Math.ceil(100 * left)} % of the last day is to be read back from the ledger`;
}

/**
 * Makes a gateway warm again whose claims were lost: it reads back from the ledger which keys were
 * used in the last day, so that of a key that was not nobody has to be asked.
 */
export type ReadBack = {
  /**
   * The epoch in which an id is proven to be of a new key, by what the ledger was asked before the
   * call. Nothing where that is not proven: the ledger has to be asked.
   */
  provenNew(txnId: TxnId): BucketEpoch | undefined;
  /** Whether claims were lost and not read back, as the claim store says now. */
  isCold(): Promise<boolean>;
  /** As the last look found it. */
  state(): ReadBackState;
  /** Somebody met lost claims that were not read back: there is something to do. */
  metCold(): void;
  /** Looks whether claims were lost and does what can be done about it now. */
  look(): Promise<void>;
};

type Stores = {
  claims: Pick<Claims, 'read'>;
  ledger: Pick<Ledger, 'postedWithin'>;
  recovery: Pick<LossRecovery, 'prepare' | 'markEnd' | 'hasPassed'>;
  /** As the gateway's. */
  wholeLedger(): Promise<string | undefined>;
  logger: Logger;
};

type Options = {
  /**
   * For how long after a loss what was claimed before it may still be appended. As in find-key.ts:
   * whoever claimed is at work for a lease at most, however it ends.
   */
  underWayMs?: number;
  signal?: AbortSignal;
  metCold?: () => void;
};

/**
 * An hour more than claims live, which clocks may differ by: what was settled when a claim that
 * lives was completed is in it.
 */
const readMs = claimTimes.lifeMs + 3_600_000;

/** What was read back, and in which epoch of each bucket it counts. */
type Known = { epochs: ReadonlyMap<number, BucketEpoch>; keys: KeyFilter };

/**
 * The order is what makes it right. The loss is noted, and so its epoch begins. For a lease after
 * that what was claimed before the loss may still be appended; then all that is in the topic is
 * waited for; and only then the ledger is read. So every key that was accepted before the loss is
 * either read or older than a claim. What is accepted later has a claim of this epoch, which the
 * claim store looks at first. A claim on what was read is made in that epoch alone: after another
 * loss the store refuses it, and all begins anew.
 *
 * It is in memory, of each gateway by itself: nothing of it has to be shared, written or resumed,
 * and whoever starts reads it again.
 */
export function readBackLosses(
  { claims, ledger, recovery, wholeLedger, logger }: Stores,
  { underWayMs = claimTimes.leaseMs, signal, metCold = () => {} }: Options = {},
): ReadBack {
  let known: Known | undefined;
  let state: ReadBackState = { state: 'warm' };
  /** When each epoch was first met, by `performance.now()`: it had begun by then. */
  let metAt = new Map<BucketEpoch | undefined, number>();
  /** Behind all that was claimed before the losses of these epochs, where it is known. */
  let barrier: string | undefined;

  const isKnown = (bucket: number, epoch: BucketEpoch | undefined) =>
    epoch !== undefined && known?.epochs.get(bucket) === epoch;

  const readFrom = async (server: string, epochs: Known['epochs']): Promise<void> => {
    const keys = openKeyFilter();
    const begin = performance.now();
    let count = 0;
    for await (const { ids, part } of ledger.postedWithin(readMs)) {
      if (signal?.aborted) return;
      for (const id of ids) keys.add(id);
      count += ids.length;
      state = { state: 'cold', step: 'reading', part };
    }
    // Another server may have answered in between that lacks some of it.
    if (server !== (await wholeLedger())) return;
    known = { epochs, keys };
    state = { state: 'warm' };
    const tookMs = Math.round(performance.now() - begin);
    logger.info({ count, tookMs }, 'the keys of the last day are read back from the ledger');
  };

  return {
    provenNew(txnId) {
      const epoch = known?.epochs.get(bucketOf(txnId, bucketCount));
      return epoch === undefined || known!.keys.mayHave(txnId) ? undefined : epoch;
    },
    async isCold() {
      const found = await claims.read(probes[0]!);
      const isCold = found.outcome === 'cold' && !isKnown(0, found.epoch);
      if (isCold) metCold();
      return isCold;
    },
    state: () => state,
    metCold,
    async look() {
      const cold = await readColdEpochs(claims);
      if (cold.size === 0) known = undefined;
      if ([...cold].every(([bucket, { epoch }]) => isKnown(bucket, epoch))) {
        state = { state: 'warm' };
        return;
      }
      if (state.state === 'warm') state = { state: 'cold', step: 'waiting' };
      const now = performance.now();
      const epochs = new Map([...cold].map(([bucket, { epoch }]) => [bucket, epoch]));
      if ([...epochs.values()].some((epoch) => !metAt.has(epoch))) barrier = undefined;
      metAt = new Map([...epochs.values()].map((epoch) => [epoch, metAt.get(epoch) ?? now]));
      if ([...cold.values()].some(({ barrier }) => barrier === undefined)) {
        await recovery.prepare();
        return;
      }
      const untilMs = Math.max(...metAt.values()) + underWayMs;
      if (now < untilMs) {
        state = { state: 'cold', step: 'under-way', untilMs };
        return;
      }
      state = { state: 'cold', step: 'waiting' };
      barrier ??= await recovery.markEnd();
      if (!(await recovery.hasPassed(barrier))) return;
      const server = await wholeLedger();
      if (server === undefined) return;
      try {
        await readFrom(server, epochs as Known['epochs']);
      } finally {
        // Where that was not all of it, the next look begins anew.
        if (state.state === 'cold') state = { state: 'cold', step: 'waiting' };
      }
    },
  };
}

/** The same, for as long as the service runs. */
export function keepReadBack(
  stores: Omit<Stores, 'logger'>,
  { logger, onClose }: Pick<Service, 'logger' | 'onClose'>,
): ReadBack {
  const closing = new AbortController();
  const readBack = readBackLosses(
    { ...stores, logger },
    { signal: closing.signal, metCold: () => loop.wake() },
  );
  const pass = async () => {
    await readBack.look();
    return 0;
  };
  const idleMs = () => (readBack.state().state === 'warm' ? restMs : apartMs);
  const loop = runLoop(pass, { name: 'read back', idleMs, wokenApartMs: apartMs, logger });
  onClose('reading back', () => {
    closing.abort();
    return loop.stop();
  });
  return readBack;
}

// Whoever meets a loss says so; without requests nobody is in a hurry. A look is a read of each
// bucket, which some stores are paid for.
const restMs = 30_000;
const apartMs = 5_000;

/** One id of each bucket, which nobody claims. */
const probes: readonly TxnId[] = idsByBucket();

function idsByBucket(): TxnId[] {
  const ids: TxnId[] = [];
  for (let n = 0; Object.keys(ids).length < bucketCount; n += 1) {
    const id = deriveTxnId('payment', 'readyz' as PartnerId, `readyz-${n}` as IdempotencyKey);
    ids[bucketOf(id, bucketCount)] ??= id;
  }
  return ids;
}

/** The buckets that are cold, with what their markers say. */
async function readColdEpochs(claims: Pick<Claims, 'read'>) {
  const found = await Promise.all(probes.map((probe) => claims.read(probe)));
  return new Map(
    found.flatMap((read, bucket) => (read.outcome === 'cold' ? [[bucket, read] as const] : [])),
  );
}
