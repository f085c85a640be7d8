import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '@triplock/runtime';
import type { FetchedBatch, MemberHooks, Membership } from '../driver.ts';
import { isAnswer, judge, TakenAwayError } from './client.ts';
import type { Fetched, Fetcher } from './fetches.ts';

/** What is fetched by: a member's client. */
export type RoundsGroup = {
  fetcher: Fetcher;
  leaders(): Promise<readonly number[]>;
  positions(partitions: number[]): Promise<ReadonlyMap<number, bigint | undefined>>;
  starts(): Promise<readonly bigint[]>;
};

type Consuming = {
  membership: Pick<Membership, 'gatherMs' | 'logger'>;
  group: RoundsGroup;
  hooks: MemberHooks;
  /** The member has to end. */
  fail: (error: unknown) => void;
};

/** The partitions of one member, and the fetches of them. */
export type Rounds = {
  /** The group was joined, also again. */
  assign(memberId: string, partitions: readonly number[]): void;
  isOwned(partition: number): boolean;
  /** Resolves when no batch is under way. */
  settled(): Promise<unknown>;
  /** Begins no other round and lets the batches under way end. */
  finish(): Promise<void>;
  /** Every partition is another's from here on. */
  stop(): void;
};

/** A partition for as long as it is this member's. */
type Owned = {
  partition: number;
  /** What is fetched next; unknown until the group's offset was read. */
  position: bigint | undefined;
  isPaused: boolean;
  /** Commits that were refused one after the other, and whether it rests after one. */
  refusals: number;
  isResting: boolean;
  batch: Promise<void> | undefined;
};

type Run = Consuming & {
  owned: Map<number, Owned>;
  /** Brokers with a round under way. */
  atWork: Set<number>;
  rounds: Set<Promise<void>>;
  isFinishing: boolean;
};

type Read = Extract<Fetched, { outcome: 'read' }>;

/** Before what a commit refused is read again, and how often in a row; as kafkajs does. */
const rests = { firstMs: 100, maxMs: 5_000 };
const refusalsMax = 5;
/** The library joins again by itself: however long that takes, nothing else helps. */
const joinsAgain = ['ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS'];

/**
 * Fetches in rounds, one at a time to each broker: all partitions that it leads and that are not
 * paused, and the next round when all batches of it are done. Partitions are handled side by side,
 * each one's batches one after the other.
 */
export function consumeRounds(consuming: Consuming): Rounds {
  const empty = { owned: new Map<number, Owned>(), isFinishing: false };
  const run: Run = { ...consuming, ...empty, atWork: new Set(), rounds: new Set() };
  let joinedAs: string | undefined;
  return {
    assign: (memberId, partitions) => {
      const kept = memberId === joinedAs ? run.owned : new Map<number, Owned>();
      joinedAs = memberId;
      run.owned = new Map(
        partitions.map((partition) => {
          const known = kept.get(partition);
          // What rests was refused in a generation that is over.
          return [partition, known && !known.isResting ? known : freshOwned(partition)];
        }),
      );
      // What was not committed is fetched once more; a batch under way says itself where to go on.
      for (const each of run.owned.values()) if (!each.batch) each.position = undefined;
      orFail(run, begin(run));
    },
    isOwned: (partition) => run.owned.has(partition),
    settled: () => Promise.allSettled(batchesOf(run)),
    finish: async () => {
      run.isFinishing = true;
      const ending = batchesOf(run);
      run.group.fetcher.destroy();
      await Promise.allSettled([...ending, ...run.rounds]);
    },
    stop: () => {
      run.isFinishing = true;
      run.owned = new Map();
    },
  };
}

function freshOwned(partition: number): Owned {
  const idle = { isPaused: false, refusals: 0, isResting: false, batch: undefined };
  return { partition, position: undefined, ...idle };
}

function batchesOf({ owned }: Run): Promise<void>[] {
  return [...owned.values()].flatMap(({ batch }) => (batch === undefined ? [] : [batch]));
}

function isMine({ owned }: Run, each: Owned): boolean {
  return owned.get(each.partition) === each;
}

function orFail(run: Run, work: Promise<unknown>): void {
  work.catch((error: unknown) => {
    if (!run.isFinishing) run.fail(error);
  });
}

/** Reads where to begin, where that is unknown, and begins. */
async function begin(run: Run): Promise<void> {
  const unknown = [...run.owned.values()].filter(({ position }) => position === undefined);
  if (unknown.length > 0) {
    const positions = await run.group.positions(unknown.map(({ partition }) => partition));
    for (const each of unknown) each.position ??= known(each, positions.get(each.partition));
  }
  await schedule(run);
}

/** A partition without a position would be fetched no more, and nobody would notice. */
function known({ partition }: Owned, offset: bigint | undefined): bigint {
  if (offset !== undefined) return offset;
  throw new Error(`Kafka did not say where partition ${partition} begins`);
}

async function schedule(run: Run): Promise<void> {
  if (run.isFinishing || run.owned.size === 0) return;
  const leaders = await run.group.leaders();
  const ready = [...run.owned.values()].filter(({ position, isPaused, isResting, batch }) => {
    return position !== undefined && !isPaused && !isResting && batch === undefined;
  });
  for (const [leader, partitions] of Map.groupBy(ready, (each) => leaders[each.partition]!)) {
    if (run.isFinishing || run.atWork.has(leader)) continue;
    run.atWork.add(leader);
    const round = runRound(run, leader, partitions).finally(() => {
      run.atWork.delete(leader);
      run.rounds.delete(round);
    });
    run.rounds.add(round);
    const next = () => schedule(run);
    orFail(run, round.then(next));
  }
}

async function runRound(run: Run, leader: number, partitions: readonly Owned[]): Promise<void> {
  const offsets = new Map(partitions.map(({ partition, position }) => [partition, position!]));
  const answers = await run.group.fetcher.fetch(leader, offsets);
  const hasGone = answers.some(({ outcome }) => outcome === 'gone');
  const starts = hasGone ? await run.group.starts() : [];
  const batches = partitions.map(async (each) => {
    const fetched = answers.find(({ partition }) => partition === each.partition);
    // Whoever has it now, or what was sought meanwhile, begins elsewhere; and a partition whose
    // leader moved may have been in two rounds.
    if (run.isFinishing || !fetched || !isMine(run, each) || each.batch !== undefined) return;
    if (each.position !== offsets.get(each.partition)) return;
    if (fetched.outcome === 'read') await take(run, each, fetched);
    else each.position = known(each, starts[each.partition]);
  });
  await Promise.all(batches);
}

async function take(run: Run, each: Owned, fetched: Read): Promise<void> {
  if (fetched.records.length > 0) {
    each.batch = handle(run, each, fetched).finally(() => void (each.batch = undefined));
    return each.batch;
  }
  const { partition, from, next, end } = fetched;
  if (next <= from) return;
  each.position = next;
  run.hooks.skip({ partition, from, next, end });
}

async function handle(run: Run, each: Owned, fetched: Read): Promise<void> {
  const { gatherMs = 0 } = run.membership;
  const soonest = performance.now() + gatherMs;
  try {
    await run.hooks.eachBatch(batchOf(run, each, fetched));
    each.refusals = 0;
  } catch (error) {
    if (judge(error) === undefined) throw error;
    if (isMine(run, each)) orFail(run, readAgain(run, each, error));
  }
  const earlyMs = soonest - performance.now();
  if (fetched.next >= fetched.end && !run.isFinishing && earlyMs > 0) await delay(earlyMs);
}

/**
 * Reads again what was not committed, after a rest that no other partition waits for. Rejects where
 * asking again cannot help, or has not: the member ends, and the next one joins after a rest.
 */
async function readAgain(run: Run, each: Owned, error: unknown): Promise<void> {
  const { partition } = each;
  each.refusals += 1;
  if (isForGood(error, each)) throw error;
  const pauseMs = backoffMs(each.refusals - 1, rests);
  const details = { err: error, partition, pauseMs, refusals: each.refusals };
  run.membership.logger.warn(details, 'a batch was not committed and is read again');
  each.position = undefined;
  each.isResting = true;
  await delay(pauseMs, undefined, { ref: false });
  each.isResting = false;
  if (!run.isFinishing && isMine(run, each)) await begin(run);
}

/** Of a member that the group does not know any more, the library may yet think that it is one. */
function isForGood(error: unknown, { refusals }: Owned): boolean {
  const refusal = judge(error);
  if (refusal === 'right' || refusal === 'login') return true;
  if (isAnswer(error, 'UNKNOWN_MEMBER_ID')) return true;
  const waits = error instanceof TakenAwayError || isAnswer(error, ...joinsAgain);
  return !waits && refusals > refusalsMax;
}

function batchOf(run: Run, each: Owned, fetched: Read): FetchedBatch {
  const isStale = () => !isMine(run, each);
  return {
    ...fetched,
    heartbeat: async () => {
      if (!isStale()) return;
      throw new TakenAwayError(`partition ${each.partition} is another member's by now`);
    },
    isStale,
    goOnFrom: (offset) => {
      each.position = offset;
    },
    pause: () => {
      each.isPaused = true;
      return () => {
        each.isPaused = false;
        if (isMine(run, each)) orFail(run, schedule(run));
      };
    },
  };
}
