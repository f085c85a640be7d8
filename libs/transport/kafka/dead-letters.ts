import type { DeadLetterHeaders } from '@triplock/contracts';
import { appendInBatches, type AppendLimits } from './group-commit.ts';
import { openInquiry } from './brokers.ts';
import { connectProducer } from './producer.ts';
import type { BrokerConnection, OutgoingHeaders, ReceivedRecord } from './driver.ts';

/** Why a record is set aside: a stable code and a sentence for people. */
export type Refusal = { reason: string; detail: string };

/** Sets records aside that can never be handled, with everything they had. */
export type DeadLetters = {
  /**
   * Resolves when every in-sync replica has the dead letter: only then may the record's offset be
   * committed.
   *
   * @throws ProduceUnknownError or ProduceRefusedError; appending it again may make it twice.
   */
  append(record: ReceivedRecord, refusal: Refusal): Promise<void>;
  ping(): Promise<void>;
  close(): Promise<void>;
};

/**
 * A dead letter is a little larger than its record, which may be as large as a topic allows: the
 * topic for dead letters must take this much in one batch (`max.message.bytes`).
 */
export const deadLetterBatchBytes = 2 * 1024 * 1024;

const limits: AppendLimits = {
  timeoutMs: 5_000,
  gatherMs: 0,
  batchRecordsMax: 1_000,
  // The rest is the framing of the batch.
  batchBytesMax: 2_000_000,
  waitingRecordsMax: 10_000,
  waitingBytesMax: 64 * 1024 * 1024,
};

/** Opens the dead-letter topic for appending. */
export function openDeadLetters(options: BrokerConnection & { topic: string }): DeadLetters {
  const connect = () => connectProducer({ ...options, sendLimitMs: limits.timeoutMs });
  const batches = appendInBatches({ connect, limits, logger: options.logger });
  const inquiry = openInquiry(options);
  return {
    append: (record, refusal) =>
      batches.append({
        key: record.key,
        value: record.value,
        headers: { ...keepOriginal(record.headers), ...describe(record, refusal) },
      }),
    ping: () => inquiry.ping(options.topic),
    close: async () => {
      await batches.close();
      await inquiry.close();
    },
  };
}

function describe(record: ReceivedRecord, { reason, detail }: Refusal): DeadLetterHeaders {
  return {
    'dead-letter.reason': reason,
    'dead-letter.detail': detail,
    'dead-letter.topic': record.topic,
    'dead-letter.partition': `${record.partition}`,
    'dead-letter.offset': `${record.offset}`,
    'dead-letter.at': new Date().toISOString(),
  };
}

/** A record that is dead-lettered a second time keeps the headers of the first time. */
function keepOriginal(headers: ReceivedRecord['headers']): OutgoingHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.startsWith('dead-letter.') ? `original.${name}` : name,
      isList(value) ? [...value] : value,
    ]),
  );
}

type HeaderValue = ReceivedRecord['headers'][string];

function isList(value: HeaderValue): value is readonly Buffer[] {
  return Array.isArray(value);
}

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
function originalHeaders({ headers }: ReceivedRecord): OutgoingHeaders {
  const originals = Object.entries(headers)
    .filter(([name]) => !name.startsWith('dead-letter.'))
    .map(([name, value]) => [name.replace(/^original\.(?=dead-letter\.)/, ''), value]);
  return Object.fromEntries(originals) as OutgoingHeaders;
}
