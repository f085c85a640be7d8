import { topics } from '@triplock/contracts';
import type { System } from '../system.ts';
import { readRecords, type RecordsSeen } from '../trace/read-records.ts';
import type { Accepted } from './send.ts';

/** The payment's records in the topic of accepted payments. */
export function recordsOf(system: System, { id, sentAt }: Accepted): Promise<RecordsSeen> {
  return readRecords(system.kafka, { topic: topics.accepted, key: id, since: sentAt });
}
