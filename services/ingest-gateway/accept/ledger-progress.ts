import { randomUUID } from 'node:crypto';
import { shareReads } from '@triplock/runtime';
import type { Offsets, TopicOffsets } from '@triplock/transport';

/** Tells whether the ledger has posted everything that was in the topic at a barrier. */
export type Progress = { hasPassed(barrier: string): Promise<boolean> };

type Position = { committed: Offsets; end: Offsets };

/** A loss has one barrier. Those of older losses are asked about no more. */
const passedMax = 100;

// Kafka is asked for all waiting requests together, and this often at most.
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
export function watchProgress(offsets: Pick<TopicOffsets, 'committed' | 'end'>): Progress {
  const passed = new Set<string>();
  const ask = shareReads(async (): Promise<Position> => {
    const [committed, end] = await Promise.all([offsets.committed(), offsets.end()]);
    return { committed, end };
  }, askLimits);
  return {
    async hasPassed(text) {
      if (passed.has(text)) return true;
      if (!isPassed(readBarrier(text), await ask())) return false;
      passed.add(text);
      if (passed.size > passedMax) passed.delete(passed.values().next().value!);
      return true;
    },
  };
}

/**
 * A topic that ends before the barrier is not the one that the barrier was read from, or lost its
 * end: what was there and is not posted can never be read, so nobody waits for it.
 */
function isPassed(barrier: Offsets, { committed, end }: Position): boolean {
  return [...barrier].every(
    ([partition, offset]) =>
      (committed.get(partition) ?? 0n) >= offset || (end.get(partition) ?? 0n) < offset,
  );
}

function readBarrier(text: string): Offsets {
  const written = Object.entries(JSON.parse(text) as Record<string, string>);
  const offsets = written.filter(([name]) => name !== 'id');
  return new Map(offsets.map(([partition, offset]) => [Number(partition), BigInt(offset)]));
}

/** Tells whether the ledger has posted everything whose claim has expired. */
export type Expired = { arePosted(): Promise<boolean> };

/**
 * A claim lives for 24 hours from its first request, and its record may be younger: a retry after a
 * release is accepted under the same claim. So the ledger must have come much closer than that; one
 * that is later still cannot vouch, and a partner asks again.
 */
const lateMaxMs = 3_600_000;

/** For so long one answer holds: short beside a claim's life, less what the ledger may be late. */
const trustedMs = 600_000;

/**
 * Watches whether the ledger's workers have posted all records that are older than an hour. An
 * expired claim looks like one that never was, and the topic keeps records for longer than claims
 * live: while the workers are later than that, what the ledger does not know may yet be posted.
 *
 * The time of a record is the clock of the gateway that appended it; an hour is also for those.
 */
export function watchExpired(offsets: Pick<TopicOffsets, 'committed' | 'since'>): Expired {
  let provenAt = -Infinity;
  const ask = shareReads(async (): Promise<boolean> => {
    const askedAt = performance.now();
    const [young, committed] = await Promise.all([
      offsets.since(new Date(Date.now() - lateMaxMs)),
      offsets.committed(),
    ]);
    const posted = [...young].every(
      ([partition, offset]) => (committed.get(partition) ?? 0n) >= offset,
    );
    if (posted) provenAt = askedAt;
    return posted;
  }, askLimits);
  return {
    arePosted: async () => performance.now() - provenAt < trustedMs || ask(),
  };
}
