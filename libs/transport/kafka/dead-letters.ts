import type { DeadLetterHeaders } from '@triplock/contracts';
import { openAppends, type AppendLimits } from './group-commit.ts';
import { driverOf } from './brokers.ts';
import { connectProducer } from './producer.ts';
import type {
  BrokerConnection,
  KafkaDriver,
  OutgoingHeader,
  OutgoingHeaders,
  ReceivedRecord,
} from './driver.ts';

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
  /** @throws while none could be appended: a record that needs it would hold up its partition. */
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

/** Opens the dead-letter topic for appending; it connects by itself. */
export function openDeadLetters(options: BrokerConnection & { topic: string }): DeadLetters {
  const appends = openAppends(options, limits);
  return {
    ...appends,
    append: async (record, refusal) => {
      const original = keepOriginal(record.headers, await driverOf(options));
      const headers = { ...original, ...describe(record, refusal) };
      await appends.append({ key: record.key, value: record.value, headers });
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
function keepOriginal(
  headers: ReceivedRecord['headers'],
  { writesNullHeaders }: KafkaDriver,
): OutgoingHeaders {
  const kept = Object.entries(headers).map(([name, value]): NamedValues => {
    return [name.startsWith('dead-letter.') ? `original.${name}` : name, valuesOf(value)];
  });
  return headersOf(writesNullHeaders ? kept : kept.flatMap(withoutNulls));
}

type NamedValues = readonly [name: string, values: readonly OutgoingHeader[]];

function valuesOf(value: ReceivedRecord['headers'][string]): readonly (Buffer | null)[] {
  return value === undefined ? [] : [value].flat();
}

function headersOf(named: readonly NamedValues[]): OutgoingHeaders {
  return Object.fromEntries(
    named.map(([name, values]) => [name, values.length === 1 ? values[0] : [...values]]),
  );
}

const nullPrefix = 'dead-letter.null.';

/**
 * A library that cannot write null would refuse the dead letter each time, and its record would
 * hold up the partition for ever. So another header says where the null values were.
 */
function withoutNulls([name, values]: NamedValues): NamedValues[] {
  const places = [...values.keys()].filter((at) => values[at] === null);
  if (places.length === 0) return [[name, values]];
  return [
    [name, values.filter((value) => value !== null)],
    [`${nullPrefix}${name}`, [places.join()]],
  ];
}

const sendLimitMs = 5_000;

/**
 * Appends the record that a dead letter was made of, with its own key, bytes and headers; a library
 * that cannot write a header's null value writes an empty one. Dying behind it and trying again
 * appends it twice.
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
    const headers = originalHeaders(deadLetter, await driverOf(options));
    await producer.send([{ key, value, headers }]);
  } finally {
    await producer.close();
  }
}

/** What a header of a record says, for people; nothing when it has none of that name, or null. */
export function headerText({ headers }: ReceivedRecord, name: string): string {
  const values = Object.hasOwn(headers, name) ? valuesOf(headers[name]) : [];
  return values.map((value) => String(value ?? '')).join(', ');
}

/** The headers from before the record became a dead letter. */
function originalHeaders(
  { headers }: ReceivedRecord,
  { writesNullHeaders }: KafkaDriver,
): OutgoingHeaders {
  const kept = new Map<string, readonly OutgoingHeader[]>();
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith('dead-letter.')) kept.set(name, valuesOf(value));
  }
  for (const [header, value] of Object.entries(headers)) {
    if (!header.startsWith(nullPrefix)) continue;
    const name = header.slice(nullPrefix.length);
    kept.set(name, withNulls(kept.get(name) ?? [], String(valuesOf(value)[0])));
  }
  const named = [...kept].map(([name, values]): NamedValues => {
    const writable = writesNullHeaders ? values : values.map((value) => value ?? '');
    return [name.replace(/^original\.(?=dead-letter\.)/, ''), writable];
  });
  return headersOf(named);
}

/** Puts null back at its places; anybody may have written what says them. */
function withNulls(values: readonly OutgoingHeader[], places: string): readonly OutgoingHeader[] {
  const all = [...values];
  for (const at of places.split(',')) all.splice(Number(at), 0, null);
  return all;
}
