import type { Pass } from '@triplock/runtime';
import type { PassedRecords, RecordBatch } from '@triplock/transport';
import { recordSkipped } from './kafka-records.ts';
import { readPositions, type LostRecords } from './lost-records.ts';

/** Where the group is, how it is gone back behind, and what keeps the records of that. */
export type UnreadRecords = LostRecords & {
  accepted: Pick<PassedRecords, 'passed' | 'readAgain'>;
  record(batch: Pick<RecordBatch, 'records'>): Promise<unknown>;
};

/**
 * A pass that reads what the auditors' group has passed and this database does not have, as after a
 * failover to a standby that was behind: nobody need accept anything for it to be noticed.
 *
 * The group passes only what is committed here, and is asked first: one that is further was never
 * that far in this database, so it was set back. Records of one that is behind are kept beside the
 * group, whichever of its members has the partition, and offsets that hold none are passed.
 *
 * @returns how many partitions were behind.
 */
export function readUnread({ accepted, record, ...lost }: UnreadRecords): Pass {
  const { database, log, logger } = lost;
  return async () => {
    const passed = await accepted.passed();
    const positions = await readPositions(database, log.topic);
    const isBehind = ([partition, next]: [number, bigint]) => next < (passed.get(partition) ?? 0n);
    const from = new Map([...positions].filter(isBehind));
    if (from.size === 0) return 0;
    const partitions = [...from].map(([partition, next]) => ({ partition, from: String(next) }));
    logger.error({ partitions }, 'offsets were passed and are not kept here: they are read again');
    const take = (records: RecordBatch['records']) => record({ records }).then(() => undefined);
    const until = await accepted.readAgain(from, take, [...from.keys()]);
    for (const [partition, begun] of from) {
      await recordSkipped(lost)({ partition, from: begun, next: until.get(partition)! });
    }
    return from.size;
  };
}
