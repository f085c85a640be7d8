import { setTimeout as delay } from 'node:timers/promises';
import type { FetchedBatch, MemberHooks, Membership } from '../driver.ts';
import { judge, TakenAwayError } from './client.ts';
import type { Fetched, Fetcher } from './fetches.ts';

/** What is fetched by: a member's client. */
export type RoundsGroup = {
  fetcher: Fetcher;
  leaders(): Promise<readonly number[]>;
  positions(partitions: number[]): Promise<ReadonlyMap<number, bigint>>;
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

/** Before what a commit refused is read again. */
const againMs = 100;

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
          const fresh = { partition, position: undefined, isPaused: false, batch: undefined };
          return [partition, kept.get(partition) ?? fresh];
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
    for (const each of unknown) each.position ??= positions.get(each.partition);
  }
  await schedule(run);
}

async function schedule(run: Run): Promise<void> {
  if (run.isFinishing || run.owned.size === 0) return;
  const leaders = await run.group.leaders();
  const ready = [...run.owned.values()].filter(({ position, isPaused, batch }) => {
    return position !== undefined && !isPaused && batch === undefined;
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
    else each.position = starts[each.partition];
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
  const { gatherMs = 0, logger } = run.membership;
  const soonest = performance.now() + gatherMs;
  try {
    await run.hooks.eachBatch(batchOf(run, each, fetched));
  } catch (error) {
    if (judge(error) === undefined) throw error;
    const { partition } = each;
    logger.debug({ err: error, partition }, 'a batch was not committed and is read again');
    await delay(againMs);
    each.position = undefined;
    if (isMine(run, each)) orFail(run, begin(run));
  }
  const earlyMs = soonest - performance.now();
  if (fetched.next >= fetched.end && !run.isFinishing && earlyMs > 0) await delay(earlyMs);
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
