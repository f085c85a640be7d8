import type { IHeaders } from 'kafkajs';
import { connectProducer } from './producer.ts';
import type { BrokerConnection } from './client.ts';
import type { ReceivedRecord } from './record-batches.ts';

const sendLimitMs = 5_000;

/**
 * Appends the record that a dead letter was made of, with its own key, bytes and headers. Dying
 * behind it and trying again appends it twice.
 *
 * @throws when it is unknown whether the topic has it.
 */
export async function redriveRecord(
  options: BrokerConnection & { topic: string },
  deadLetter: ReceivedRecord,
): Promise<void> {
  const producer = await connectProducer({ ...options, sendLimitMs });
  try {
    const { key, value } = deadLetter;
    await producer.send([{ key, value, headers: originalHeaders(deadLetter) }]);
  } finally {
    await producer.close();
  }
}

/** What a header of a record says, for people; nothing when it has none of that name. */
export function headerText({ headers }: ReceivedRecord, name: string): string {
  return [headers[name] ?? []].flat().map(String).join(', ');
}

/** The headers from before the record became a dead letter. */
function originalHeaders({ headers }: ReceivedRecord): IHeaders {
  const originals = Object.entries(headers)
    .filter(([name]) => !name.startsWith('dead-letter.'))
    .map(([name, value]) => [name.replace(/^original\.(?=dead-letter\.)/, ''), value]);
  return Object.fromEntries(originals) as IHeaders;
}
