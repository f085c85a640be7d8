import { randomUUID } from 'node:crypto';
import { shareReads } from '@triplock/runtime';
import { partitionOfKey, type Offsets, type TopicOffsets } from '@triplock/transport';

/**
 * Tells whether the ledger has posted everything that was in the topic at a barrier; with the key
 * of a record, everything under that key.
 */
export type Progress = {
  hasPassed(barrier: string, recordKey?: string): Promise<boolean>;
  /** Whether that was seen before; Kafka is not asked. */
  wasPassed(barrier: string, recordKey?: string): boolean;
  /**
   * The same of a barrier at what is in the topic now: waits for it, and is false when `signal`
   * ends the wait.
   *
   * @throws when Kafka does not answer.
   */
  untilPosted(recordKey: string | undefined, signal: AbortSignal): Promise<boolean>;
};

type Position = { committed: Offsets; end: Offsets };

/** A loss has one barrier. Those of older losses are asked about no more. */
const passedMax = 100;

/** Kafka is asked for all waiting requests together, and this often at most. */
const askLimits = { apartMs: 100 };

/** Writes offsets down as a barrier, under an id, so that no two are the same text. */
export function writeBarrier(end: Offsets): string {
  const offsets = [...end].map(([partition, offset]) => [partition, `${offset}`] as const);
  return JSON.stringify({ ...Object.fromEntries(offsets), id: randomUUID() });
}

/**
 * Watches the offsets that the ledger's workers have committed. An offset is committed only after
 * its row is in the ledger, so a barrier that was passed once stays passed, also when an operator
 * resets the group to read the topic again.
 *
 * Nothing is carried from one barrier to the next, and every answer of Kafka that counts was asked
 * for after the question: a topic may be deleted and made anew, and its offsets then start at 0.
 */
export function watchProgress(
  offsets: Pick<TopicOffsets, 'committed' | 'end'>,
  limits = askLimits,
): Progress {
  const passed = new Map<string, { barrier: Offsets; known: Set<number> }>();
  const ask = shareReads(async (): Promise<Position> => {
    const [committed, end] = await Promise.all([offsets.committed(), offsets.end()]);
    return { committed, end };
  }, limits);
  const passedOf = (text: string) => {
    const seen = passed.get(text);
    if (seen !== undefined) return seen;
    const first = { barrier: readBarrier(text), known: new Set<number>() };
    passed.set(text, first);
    if (passed.size > passedMax) passed.delete(passed.keys().next().value!);
    return first;
  };
  return {
    wasPassed(text, recordKey) {
      const { barrier, known } = passedOf(text);
      return partitionsOf(recordKey, barrier).every((partition) => known.has(partition));
    },
    async hasPassed(text, recordKey) {
      const { barrier, known } = passedOf(text);
      const own = partitionsOf(recordKey, barrier);
      if (own.every((partition) => known.has(partition))) return true;
      const position = await ask();
      const now = [...barrier.keys()].filter((each) => isPassed(each, barrier, position));
      // Partitions were added, or the topic was made anew: the key may have had another one.
      if (position.end.size !== barrier.size && now.length < barrier.size) return false;
      for (const partition of now) known.add(partition);
      return own.every((partition) => known.has(partition));
    },
    async untilPosted(recordKey, signal) {
      let position = await ask();
      const barrier = position.end;
      const own = partitionsOf(recordKey, barrier);
      while (!own.every((partition) => isPassed(partition, barrier, position))) {
        if (signal.aborted) return false;
        position = await ask();
      }
      return true;
    },
  };
}

/**
 * The partitions that may hold records of a key: one, so that a partition that stands still
 * concerns nobody else. It holds as long as partitions are added only to a topic without records
 * (docs/operating.md), which the order of a payment and its refunds rests on too.
 */
function partitionsOf(
  recordKey: string | undefined,
  topic: ReadonlyMap<number, unknown>,
): number[] {
  const all = [...topic.keys()];
  return recordKey === undefined ? all : [partitionOfKey(recordKey, topic.size)];
}

/**
 * A topic that ends before the barrier is not the one that the barrier was read from, or lost its
 * end: what was there and is not posted can never be read, so nobody waits for it.
 */
function isPassed(partition: number, barrier: Offsets, { committed, end }: Position): boolean {
  const offset = barrier.get(partition) ?? 0n;
  return (committed.get(partition) ?? 0n) >= offset || (end.get(partition) ?? 0n) < offset;
}

function readBarrier(text: string): Offsets {
  const written = Object.entries(JSON.parse(text) as Record<string, string>);
  const offsets = written.filter(([name]) => name !== 'id');
  return new Map(offsets.map(([partition, offset]) => [Number(partition), BigInt(offset)]));
}

/** Tells whether the ledger has posted everything, of a record's key, whose claim has expired. */
export type Expired = { arePosted(recordKey?: string): Promise<boolean> };

/**
 * A claim lives for 24 hours from when it was last made or completed, so a record that was appended
 * under one that has expired is older than that, less a lease. The ledger must have come much
 * closer; one that is later still cannot vouch, and a partner asks again.
 */
const lateMaxMs = 3_600_000;

/** For so long one answer holds: short beside a claim's life, less what the ledger may be late. */
const trustedMs = 600_000;

/**
 * Watches whether the ledger's workers have posted all records that are older than an hour. An
 * expired claim looks like one that never was, and the topic keeps records for longer than claims
 * live: while the workers are later than that, what the ledger does not know may yet be posted.
 *
 * The time of a record is that at which its broker got it.
 */
export function watchExpired(
  offsets: Pick<TopicOffsets, 'committed' | 'since'>,
  holdsMs = trustedMs,
): Expired {
  let proven = new Map<number, number>();
  const ask = shareReads(async (): Promise<ReadonlyMap<number, number>> => {
    const askedAt = performance.now();
    const [young, committed] = await Promise.all([
      offsets.since(new Date(Date.now() - lateMaxMs)),
      offsets.committed(),
    ]);
    proven = new Map(
      [...young].map(([partition, offset]) => {
        const isPosted = (committed.get(partition) ?? 0n) >= offset;
        return [partition, isPosted ? askedAt : (proven.get(partition) ?? -Infinity)];
      }),
    );
    return proven;
  }, askLimits);
  const arePosted = (recordKey: string | undefined) => {
    const partitions = partitionsOf(recordKey, proven);
    const since = performance.now() - holdsMs;
    return partitions.every((each) => (proven.get(each) ?? -Infinity) > since);
  };
  return {
    async arePosted(recordKey) {
      if (proven.size > 0 && arePosted(recordKey)) return true;
      await ask();
      return arePosted(recordKey);
    },
  };
}
