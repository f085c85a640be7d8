import { decodeAccepted } from '@triplock/contracts';
import { backoffMs, runLoop, withDeadline, type Loop, type Pass } from '@triplock/runtime';
import {
  readStretches,
  type BrokerConnection,
  type ReceivedRecord,
  type RecordBatch,
} from '@triplock/transport';
import { settleBatch } from './settling.ts';
import type { RecordOutcome } from './posting.ts';
import type { Worker } from '../worker.ts';

/**
 * Payments that are taken to their end before it is their turn in the log.
 *
 * A partition is read in its order, and of its order only that of each payment counts. So while a
 * worker is far behind, what is in front of it is read once more, ahead: of each partner the first
 * payments, as many of one as of another. Who has few waits for the reading, and not for the
 * backlog of who has many. Who is not behind reads nothing twice.
 *
 * Offsets are committed as ever, by whoever reads the log in its order: to that reader what was
 * done ahead is done, as long as this process lives and the ledger is where it was. After a crash,
 * or when the partition moves, it is a record that comes again, and guard 2 knows it. What follows
 * a payment is never done ahead: it stands behind its payment in the partition and keeps its order
 * with all others of that one.
 *
 * Another server of the ledger may lack what was done ahead, and whoever looks at it does not find
 * that: it may be further on than all that the group has passed or has in hand (continuity.ts). So
 * it is left out only where the server that has it answers still. From then on it is in hand, and
 * whoever looks at the next server reads it again.
 */
export type Ahead = {
  /** A partition's batch has begun: how far it is, and where the partition ends. */
  at(progress: Pick<RecordBatch, 'partition' | 'next' | 'end'>): void;
  /**
   * Resolves once the partition's backlog was read ahead for the first time, at once where there is
   * none, and in seconds whatever becomes of it: who has few goes first, by as long as that takes.
   */
  begun(partition: number): Promise<void>;
  /** The group was joined: of what is another worker's now nothing is kept. */
  assigned(partitions: readonly number[]): void;
  /** The records of a batch that are still to be done. @throws while the ledger does not answer. */
  rest(batch: RecordBatch): Promise<readonly ReceivedRecord[]>;
  /** The batch's offset was committed: what is before it comes no more. */
  passed(progress: Pick<RecordBatch, 'partition' | 'next'>): void;
  /** Reads ahead once. Returns how many payments were done. */
  pass: Pass;
};

/** How far is read ahead, and how much is done of it. */
export type AheadLimits = {
  /** Records of a partition that are left to its own reader, which has them in a moment. */
  leftMax: number;
  /** As many more have to wait before it is worth while. */
  behindMin: number;
  /** Records of a partition that one pass reads. */
  readMax: number;
  /** So many bytes of them are enough: a pass has an end also where payments are large. */
  readBytesMax: number;
  /** Payments of one partner that a pass takes. */
  perPartnerMax: number;
  /** Their bytes: whose payments are large leaves room for others. */
  perPartnerBytesMax: number;
  /** All that a pass takes, in bytes: it is in memory. */
  bytesMax: number;
};

// Some two seconds of a worker that has four partitions.
const usualLimits: AheadLimits = {
  leftMax: 1_000,
  behindMin: 1_000,
  readMax: 20_000,
  readBytesMax: 32 * 1024 * 1024,
  perPartnerMax: 200,
  perPartnerBytesMax: 512 * 1024,
  bytesMax: 8 * 1024 * 1024,
};
const readWithinMs = 30_000;
// A small part of what a backlog takes that is worth while, and of a session.
const firstWithinMs = 3_000;

type Position = {
  /** Where the partition's own reader is, and the end that it saw. */
  next: bigint;
  end: bigint;
  /** All before it was read ahead, or is left. */
  seen: bigint;
  /** Offsets of payments that are done and still to be passed. */
  done: Set<bigint>;
  /** The ledger's server that has them. */
  doneOn: string | undefined;
  /** Settled once a pass has read of it, or failed to. */
  first: PromiseWithResolvers<void>;
};

function beginning(next: bigint, end: bigint): Position {
  const first = Promise.withResolvers<void>();
  return { next, end, seen: 0n, done: new Set(), doneOn: undefined, first };
}

type Hooks = {
  /** What became of records that were done ahead. */
  report(batch: RecordBatch, outcomes: readonly RecordOutcome[]): void;
  /** There is something to read ahead. */
  onBehind(): void;
  /** Which server has the ledger now. Absent where what was committed stays. */
  server?: (() => Promise<string>) | undefined;
};

/** Reads ahead of a worker's partitions; `pass` does it once. */
export function openAhead(
  worker: Worker,
  topic: BrokerConnection & { topic: string },
  { report, onBehind, server }: Hooks,
  limits: AheadLimits = usualLimits,
): Ahead {
  const positions = new Map<number, Position>();
  const stretchOf = ([partition, { next, end, seen }]: [number, Position]) => {
    const from = largest(seen, next + BigInt(limits.leftMax));
    const to = smallest(end, from + BigInt(limits.readMax));
    const isBehind = end - next >= BigInt(limits.leftMax + limits.behindMin) && from < to;
    return isBehind ? [{ partition, from, to }] : [];
  };
  const serverNow = async () => (await server?.()) ?? 'the only one';
  /** Forgets what another server had than the one that has the ledger now, and begins anew. */
  const keepDoneOn = (position: Position, now: string) => {
    if (position.doneOn === now) return;
    Object.assign(position, { doneOn: now, seen: 0n });
    position.done.clear();
  };
  const settle = async (partition: number, records: readonly ReceivedRecord[]) => {
    const position = positions.get(partition);
    if (position === undefined) return 0;
    // Asked before: what follows is posted there, or on a later one, and is then not kept as done.
    const postedOn = await serverNow();
    keepDoneOn(position, postedOn);
    const batch: RecordBatch = {
      partition,
      records,
      from: records[0]!.offset,
      next: records.at(-1)!.offset + 1n,
      end: position.end,
      heartbeat: async () => undefined, // It is the member's own, and not this reader's.
      isStale: () => positions.get(partition) !== position,
    };
    report(batch, await settleBatch(worker, batch));
    if (position.doneOn !== postedOn) return 0;
    for (const { offset } of records) position.done.add(offset);
    return records.length;
  };
  return {
    at({ partition, next, end }) {
      const known = positions.get(partition);
      // Who reads again from further back, or another topic, begins anew.
      const position =
        known === undefined || next < known.next
          ? beginning(next, end)
          : Object.assign(known, { next, end });
      positions.set(partition, position);
      if (stretchOf([partition, position]).length > 0) onBehind();
    },
    async begun(partition) {
      const position = positions.get(partition);
      if (position === undefined || position.seen > 0n) return;
      if (stretchOf([partition, position]).length === 0) return;
      const first = withDeadline(position.first.promise, {
        ms: firstWithinMs,
        what: 'reading ahead',
      });
      await first.catch(() => undefined); // It goes on, and nobody waits for it any more.
    },
    assigned(partitions) {
      for (const each of positions.keys()) if (!partitions.includes(each)) positions.delete(each);
    },
    async rest({ partition, records }) {
      const position = positions.get(partition);
      if (position === undefined || position.done.size === 0) return records;
      keepDoneOn(position, await serverNow());
      return records.filter(({ offset }) => !position.done.has(offset));
    },
    passed({ partition, next }) {
      const done = positions.get(partition)?.done;
      for (const offset of done ?? []) if (offset < next) done!.delete(offset);
    },
    async pass() {
      const stretches = [...positions].flatMap(stretchOf);
      if (stretches.length === 0) return 0;
      const read = stretches.flatMap(({ partition }) => positions.get(partition) ?? []);
      try {
        const chosen = choosePayments(limits);
        const { take, isEnough } = chosen;
        await readStretches(topic, { stretches, take, isEnough, withinMs: readWithinMs });
        const settled = [...chosen.byPartition].map(([each, records]) => settle(each, records));
        const counts = await Promise.all(settled);
        for (const [n, { partition, to }] of stretches.entries()) {
          read[n]!.seen = chosen.enoughAt(partition) ?? to;
        }
        return counts.reduce((sum, count) => sum + count, 0);
      } finally {
        for (const { first } of read) first.resolve();
      }
    },
  };
}

/** Takes the first payments of each partner, by the header that names it: nothing else is read. */
function choosePayments(limits: AheadLimits) {
  const partners = new Map<string, { payments: number; bytes: number }>();
  const byPartition = new Map<number, ReceivedRecord[]>();
  const read = new Map<number, { bytes: number; next: bigint }>();
  let bytes = 0;
  const chooseOne = (record: ReceivedRecord) => {
    const { partner_id: partnerId } = record.headers;
    if (!Buffer.isBuffer(partnerId)) return;
    const partner = partnerId.toString();
    const taken = partners.get(partner) ?? { payments: 0, bytes: 0 };
    const size = sizeOf(record);
    const isFull =
      taken.payments >= limits.perPartnerMax ||
      taken.bytes + size > limits.perPartnerBytesMax ||
      bytes + size > limits.bytesMax;
    if (isFull) return;
    // What is no payment, or none that can be posted, is the business of its turn.
    if (decodeAccepted(record).outcome !== 'payment') return;
    partners.set(partner, { payments: taken.payments + 1, bytes: taken.bytes + size });
    bytes += size;
    const others = byPartition.get(record.partition);
    if (others === undefined) byPartition.set(record.partition, [copyOf(record)]);
    else others.push(copyOf(record));
  };
  const take = (records: readonly ReceivedRecord[]) => {
    for (const record of records) {
      const before = read.get(record.partition)?.bytes ?? 0;
      read.set(record.partition, { bytes: before + sizeOf(record), next: record.offset + 1n });
      chooseOne(record);
    }
  };
  const isEnough = (partition: number) => (read.get(partition)?.bytes ?? 0) >= limits.readBytesMax;
  /** Up to where a partition was read that was not read to its stretch's end. */
  const enoughAt = (partition: number) =>
    isEnough(partition) ? read.get(partition)!.next : undefined;
  return { take, isEnough, enoughAt, byPartition };
}

const sizeOf = ({ value }: ReceivedRecord) => value?.length ?? 0;

/** Without the answer that it came in: a few small payments would keep all others in memory. */
function copyOf(record: ReceivedRecord): ReceivedRecord {
  const { key, value } = record;
  const headers = Object.entries(record.headers).map(([name, each]) => {
    const isOne = Buffer.isBuffer(each) || each === null || each === undefined;
    return [name, isOne ? copyOfBytes(each ?? null) : each.map(copyOfBytes)];
  });
  const copied = Object.fromEntries(headers) as ReceivedRecord['headers'];
  return { ...record, key: copyOfBytes(key), value: copyOfBytes(value), headers: copied };
}

const copyOfBytes = (bytes: Buffer | null) => bytes && Buffer.from(bytes);

const largest = (one: bigint, other: bigint) => (one > other ? one : other);
const smallest = (one: bigint, other: bigint) => (one < other ? one : other);

const rests = { firstMs: 250, maxMs: 2_000 };
// A backlog that is read through as fast as it can be leaves nothing for those who post it.
const passesApartMs = 250;

/** Reads ahead until it is stopped, whenever `wake` says that a partition is behind. */
export function runAhead(ahead: Ahead, logger: Worker['logger']): Loop {
  return runLoop(ahead.pass, {
    name: 'read ahead',
    idleMs: (idleBefore) => backoffMs(idleBefore, rests),
    apartMs: passesApartMs,
    wokenApartMs: passesApartMs,
    logger,
  });
}
