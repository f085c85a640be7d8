import { setTimeout as delay } from 'node:timers/promises';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type { Logger } from '@triplock/runtime';
import { electionMs, gapBefore, type TopicLog, type LogGap } from '@triplock/transport';

const sql = loadStatements(import.meta.url, 'lost-records.sql', [
  'readPositions',
  'lockPositions',
  'beginPositions',
  'movePositions',
  'confirmPositions',
  'recordLost',
  'listLost',
]);

/** What the auditor compares its own progress with. */
export type LostRecords = {
  database: Database;
  log: Pick<TopicLog, 'topic' | 'bounds'>;
  logger: Logger;
  /** Until an end that went back is believed; 5 s by default. */
  confirmMs?: number;
};

/**
 * What was read of one partition: the first offset, and the one after the last. Where it is known
 * from which offset on the reader was given all that there is, that is `from`.
 */
export type Stretch = {
  partition: number;
  from?: bigint | undefined;
  first: bigint;
  next: bigint;
};

/**
 * The log still holds something from what is expected next on, and a reader went on behind it: this
 * database was set back, or missed that it was passed.
 */
export class UnreadError extends Error {
  override name = 'UnreadError';
  readonly partition: number;
  readonly from: bigint;
  constructor(partition: number, from: bigint) {
    super(`partition ${partition} was read past offset ${from}, which this database lacks`);
    this.partition = partition;
    this.from = from;
  }
}

/**
 * Offsets whose records were never kept here. `begun-again`: other records were read where these
 * offsets had been passed, so the topic, or its end, is not the one that it was.
 */
type Lost = Omit<LogGap, 'why'> & { why: LogGap['why'] | 'begun-again' };

type Positions = Map<number, bigint>;

/** Offsets, both included, that were lost and that nobody has acknowledged. */
export type ListedLoss = { partition: number; from: number; to: number; seen_at: Date };

/** What was lost and nobody has acknowledged, the oldest 100. */
export function listLost(database: Queryable): Promise<ListedLoss[]> {
  return database.query<ListedLoss>(sql.listLost);
}

/** The next offset that is expected of each partition that was ever read. */
export async function readPositions(database: Queryable, topic: string): Promise<Positions> {
  type Position = { partition: number; next: bigint };
  const rows = await database.query<Position>(sql.readPositions, [topic]);
  return new Map(rows.map(({ partition, next }) => [partition, next]));
}

/**
 * Compares what is expected next with what the topic still holds, and records as lost what is
 * between them: also where no record ever comes again. Rejects when PostgreSQL or Kafka is away.
 */
export async function findLostRecords(lost: LostRecords): Promise<void> {
  if ((await compareWithLog(lost, 'ask-again')) === 'recorded') return;
  await delay(lost.confirmMs ?? electionMs);
  await compareWithLog(lost, 'believe');
}

function compareWithLog(
  { database, log, logger }: LostRecords,
  cutOff: 'ask-again' | 'believe',
): Promise<'recorded' | 'ends-went-back'> {
  return database.transaction(async (tx) => {
    const positions = await lockPositions(tx, log);
    // Asked under the lock: an end that is older than a position would look as if it went back.
    const bounds = await log.bounds();
    await beginAdded(tx, log, { positions, partitions: [...bounds.keys()] });
    const gaps = [...positions].flatMap(([partition, next]) => {
      const there = bounds.get(partition);
      return there === undefined ? [] : (gapBefore({ partition, next }, there) ?? []);
    });
    const doubted = cutOff === 'ask-again' ? gaps.filter(({ why }) => why === 'cut-off') : [];
    const certain = gaps.filter((gap) => !doubted.includes(gap));
    await recordLost(tx, { log, logger }, certain);
    await movePositions(
      tx,
      log,
      certain.map(({ partition }) => {
        const { start, end } = bounds.get(partition)!;
        return { partition, next: positions.get(partition)! < start ? start : end };
      }),
    );
    const whole = [...positions.keys()].filter((each) =>
      gaps.every((gap) => gap.partition !== each),
    );
    await tx.query(sql.confirmPositions, [log.topic, whole]);
    return doubted.length > 0 ? 'ends-went-back' : 'recorded';
  });
}

/**
 * Keeps records with `keep` and says in the same transaction what is expected next. What the log
 * has dropped between the two is recorded as lost; what is in the log and no record (a control
 * record, an aborted transaction) is not. `keep` gives the first offset of each partition whose
 * record was not known before: one that had been passed shows that offsets have begun again.
 *
 * @throws UnreadError when the reader went on behind what the log still has and was never kept, and
 * when PostgreSQL or, in doubt, Kafka is away; nothing is kept then.
 */
export function keepInOrder(
  { database, log, logger }: LostRecords,
  stretches: readonly Stretch[],
  keep: (tx: Queryable) => Promise<ReadonlyMap<number, bigint>>,
): Promise<void> {
  return database.transaction(async (tx) => {
    const positions = await lockPositions(tx, log);
    const partitions = stretches.map(({ partition }) => partition);
    await beginAdded(tx, log, { positions, partitions });
    const isAhead = stretches.some(({ partition, first }) => first > positions.get(partition)!);
    const bounds = isAhead ? await log.bounds() : undefined;
    refuseUnread(stretches, positions, bounds);
    const firstNew = await keep(tx);
    const gaps: Lost[] = [];
    for (const [partition, some] of Map.groupBy(stretches, (each) => each.partition)) {
      const expected = positions.get(partition)!;
      const first = some.reduce(
        (least, each) => (each.first < least ? each.first : least),
        some[0]!.first,
      );
      const next = some.reduce((most, each) => (each.next > most ? each.next : most), 0n);
      const again = firstNew.get(partition) ?? expected;
      const start = bounds?.get(partition)?.start ?? 0n;
      const to = start < first ? start : first;
      if (to > expected) gaps.push({ partition, from: expected, to, why: 'dropped' });
      if (again < expected) gaps.push({ partition, from: again, to: expected, why: 'begun-again' });
      positions.set(partition, again < expected || next > expected ? next : expected);
    }
    await recordLost(tx, { log, logger }, gaps);
    const moved = stretches.map(({ partition }) => ({
      partition,
      next: positions.get(partition)!,
    }));
    await movePositions(tx, log, moved);
  });
}

/** @throws UnreadError for the first of them before which the log still has something. */
function refuseUnread(
  stretches: readonly Stretch[],
  positions: Positions,
  bounds: Awaited<ReturnType<TopicLog['bounds']>> | undefined,
): void {
  for (const { partition, from } of stretches) {
    const [expected, start] = [positions.get(partition)!, bounds?.get(partition)?.start];
    if (from === undefined || start === undefined) continue;
    const unread = start > expected ? start : expected;
    if (from > unread) throw new UnreadError(partition, unread);
  }
}

/**
 * What is expected of each partition. A topic that was never read begins where its log does: what
 * left it before there was an audit is nobody's loss.
 */
async function lockPositions(tx: Queryable, log: LostRecords['log']): Promise<Positions> {
  const locked = async (): Promise<Positions> => {
    const rows = await tx.query<{ partition: number; next: bigint }>(sql.lockPositions, [
      log.topic,
    ]);
    return new Map(rows.map(({ partition, next }) => [partition, next]));
  };
  const positions = await locked();
  if (positions.size > 0) return positions;
  const begun = [...(await log.bounds())].map(([partition, { start }]) => {
    return { partition, next: String(start) };
  });
  await tx.query(sql.beginPositions, [log.topic, JSON.stringify(begun)]);
  return locked();
}

/** A partition that was added to the topic begins at 0, wherever its log begins by now. */
async function beginAdded(
  tx: Queryable,
  { topic }: LostRecords['log'],
  { positions, partitions }: { positions: Positions; partitions: readonly number[] },
): Promise<void> {
  const added = partitions.filter((partition) => !positions.has(partition));
  if (added.length === 0) return;
  for (const partition of added) positions.set(partition, 0n);
  const rows = added.map((partition) => ({ partition, next: '0' }));
  await tx.query(sql.beginPositions, [topic, JSON.stringify(rows)]);
}

async function movePositions(
  tx: Queryable,
  { topic }: LostRecords['log'],
  positions: readonly { partition: number; next: bigint }[],
): Promise<void> {
  if (positions.length === 0) return;
  const moved = new Map(positions.map(({ partition, next }) => [partition, String(next)]));
  const rows = [...moved].map(([partition, next]) => ({ partition, next }));
  await tx.query(sql.movePositions, [topic, JSON.stringify(rows)]);
}

async function recordLost(
  tx: Queryable,
  { log, logger }: Pick<LostRecords, 'log' | 'logger'>,
  gaps: readonly Lost[],
): Promise<void> {
  if (gaps.length === 0) return;
  const rows = gaps.map(({ from, to, ...gap }) => ({ ...gap, from: `${from}`, to: `${to}` }));
  const recorded = await tx.query<object>(sql.recordLost, [log.topic, JSON.stringify(rows)]);
  for (const gap of recorded) {
    logger.error({ topic: log.topic, ...gap }, 'Kafka lost accepted records that were never read');
  }
}
