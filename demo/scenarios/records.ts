import { count, readRecords, type RecordsSeen } from '@triplock/operator';
import { promised } from '../broken-promise.ts';
import type { System } from '../system.ts';
import type { Accepted } from './send.ts';

/** The payment's records in the topic of accepted payments. */
export function recordsOf(system: System, { id, sentAt }: Accepted): Promise<RecordsSeen> {
  return readRecords(system.accepted, id, sentAt);
}

/** Retries that guard 1 answered have appended nothing. Tells how many records there are. */
export async function promiseOneRecord(system: System, accepted: Accepted): Promise<string> {
  const { records } = await recordsOf(system, accepted);
  const evidence = { ids: [accepted.id], saw: records };
  const one = records.length >= 1 && records.length <= 1 + accepted.unsure;
  promised('one payment is one record, whatever its retries', one, evidence);
  return count(records.length, 'Kafka record');
}
