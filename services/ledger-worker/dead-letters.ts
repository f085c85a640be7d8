import type { EventId } from '@triplock/payments';
import type { ReceivedRecord } from '@triplock/transport';
import type { DeadRecord, RecordOutcome } from './posting.ts';
import type { Worker } from './worker.ts';

/** Far below what dead letters hold in memory, even when a dozen partitions are full of poison. */
const appendsMax = 500;

/**
 * Appends records to the dead-letter topic, with their bytes, headers and the reason. Resolves when
 * all of them are durable there. Repeated, it appends them twice, which a redrive can bear.
 */
export async function appendDeadLetters(
  { deadLetters }: Worker,
  dead: readonly DeadRecord[],
): Promise<void> {
  for (let from = 0; from < dead.length; from += appendsMax) {
    const some = dead.slice(from, from + appendsMax);
    await Promise.all(some.map(({ record, refusal }) => deadLetters.append(record, refusal)));
  }
}

/** The record's key stands for another request; an event reports it to the partner. */
export function keyConflict(record: ReceivedRecord, eventId: EventId): RecordOutcome {
  const detail = `the key stands for another request, which event ${eventId} reports`;
  return { outcome: 'key-conflict', dead: { record, refusal: { reason: 'key_conflict', detail } } };
}

/** No ledger will ever store it. */
export function unpostable(record: ReceivedRecord, detail: string): RecordOutcome {
  return { outcome: 'unpostable', dead: { record, refusal: { reason: 'unpostable', detail } } };
}
