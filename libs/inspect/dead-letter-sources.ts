import { isUtf8 } from 'node:buffer';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import {
  headerText,
  openTopicReader,
  type BrokerConnection,
  type OutgoingMessage,
  type ReceivedRecord,
} from '@triplock/transport';
import type { EventId } from '@triplock/payments';
import { UsageError } from '@triplock/command';
import { lastLetterActs, type PastAct } from './operator-acts.ts';
import { publishOnce, withOutbox, brokersOf } from './operator.ts';
import { type Config } from './config.ts';

const statements = loadStatements(import.meta.url, 'dead-letters.sql', [
  'list',
  'showEvent',
  'showDelivery',
  'showTransaction',
  'refused',
]);

/** Where dead letters are kept. The database is seen as its owner sees it. */
export type DeadLetterSources = {
  database: Database;
  kafka: BrokerConnection;
  topics: { accepted: string; deadLetter: string };
  /** Gives a parked event back; an outbox in PostgreSQL within that transaction. */
  redriveEvent: (tx: Queryable, eventId: EventId) => Promise<EventId[]>;
  /** Publishes a message to all consumers once more. Rejects where nobody knows whether it came. */
  publishAgain: (message: MessageOfEvent) => Promise<'published' | 'unpublishable'>;
};

/** A message with what every consumer knows an event by. */
export type MessageOfEvent = Omit<OutgoingMessage, 'orderingKey'>;

/**
 * One dead letter: its offset in the dead-letter topic, the event that could not go on, the
 * transaction that comes to no end, or the message that a consumer refused.
 */
export type DeadLetterId =
  | { source: 'kafka'; partition: number; offset: bigint }
  | { source: 'outbox'; eventId: string }
  /** Of the event's deliveries the one with this number. */
  | { source: 'webhook'; eventId: string; ordinal: number }
  | { source: 'transaction'; txnId: string }
  | { source: 'refused'; consumer: string; messageId: string };

/** One dead letter in a list. `about` is the transaction, or the key of a record that is none. */
export type DeadLetter = {
  id: string;
  at: Date;
  partner: string;
  about: string;
  reason: string;
  /** Who gave it back last, where that was the last thing done about it. */
  redriven: PastAct | null;
  /** Who dismissed it, where nothing was done about it and nothing became of it since. */
  dismissed: PastAct | null;
};

/** What was found, without what people did about it. */
type Found = Omit<DeadLetter, 'redriven' | 'dismissed'>;

/** Which dead letters to list: those that wait for a person, or those that one dismissed. */
export type Wanted = 'waiting' | 'dismissed';

/** Everything that is set aside, oldest first within Kafka and within the database. */
export async function listDeadLetters(
  sources: DeadLetterSources,
  wanted: Wanted,
): Promise<DeadLetter[]> {
  const both = await Promise.all([
    listDeadRecords(sources, wanted),
    listDeadRows(sources.database, wanted),
  ]);
  return both.flat();
}

/** Those of Kafka. */
export async function listDeadRecords(
  sources: DeadLetterSources,
  wanted: Wanted,
): Promise<DeadLetter[]> {
  const records = await withDeadLetterTopic(sources, (reader) => reader.newest());
  return withActs(sources.database, records.map(deadRecord), wanted);
}

/** Those of the database; of refused messages the newest 10 000. */
export async function listDeadRows(database: Queryable, wanted: Wanted): Promise<DeadLetter[]> {
  const [rows, refused] = await Promise.all([
    database.query<Found>(statements.list),
    database.query<RefusedRow>(statements.refused, [null, null, 0]),
  ]);
  return withActs(database, [...rows, ...refused.toReversed().map(refusedMessage)], wanted);
}

/** A webhook may be given up again after it was dismissed; what else is set aside is so once. */
async function withActs(
  database: Queryable,
  found: readonly Found[],
  wanted: Wanted,
): Promise<DeadLetter[]> {
  const ids = found.map(({ id }) => id);
  const acts = await lastLetterActs(database, ids);
  const letters = found.map((each): DeadLetter => {
    const last = acts.get(each.id);
    const isOver = last?.act === 'dismiss' && (!isWebhook(each) || last.at >= each.at);
    return {
      ...each,
      redriven: last?.act === 'redrive' ? last : null,
      dismissed: isOver ? last : null,
    };
  });
  return letters.filter(({ dismissed }) => (dismissed !== null) === (wanted === 'dismissed'));
}

const isWebhook = ({ id }: Found) => id.startsWith('webhook:');

/** All that is known of one dead letter; undefined when there is none of that id. */
export async function showDeadLetter(
  sources: DeadLetterSources,
  id: DeadLetterId,
): Promise<object | undefined> {
  const { database } = sources;
  switch (id.source) {
    case 'kafka': {
      const record = await findRecord(sources, id);
      return record && { ...deadRecord(record), ...contentsOf(record) };
    }
    case 'outbox': {
      const events = await database.query(statements.showEvent, [id.eventId]);
      return events.length === 0 ? undefined : { id: renderDeadLetterId(id), events };
    }
    case 'webhook': {
      const attempts = await database.query(statements.showDelivery, [id.eventId, id.ordinal]);
      return attempts.length === 0 ? undefined : { id: renderDeadLetterId(id), attempts };
    }
    case 'transaction': {
      const [row] = await database.query(statements.showTransaction, [id.txnId]);
      return row && { id: renderDeadLetterId(id), ...row };
    }
    case 'refused': {
      const row = await findRefused(database, id);
      return row && { ...refusedMessage(row), ...refusedContents(row) };
    }
    default:
      return id satisfies never;
  }
}

const refusedId = /^refused:([a-z0-9-]{1,63}):([\x21-\x7e]{1,200})$/;
const kafkaId = /^kafka:(\d{1,9}):(\d{1,18})$/;
const rowId =
  /^(outbox|webhook|transaction):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([2-9]|[1-9]\d))?$/i;

/** @throws UsageError when the text is no id of a dead letter. */
export function parseDeadLetterId(text: string): DeadLetterId {
  const record = kafkaId.exec(text);
  if (record) {
    return { source: 'kafka', partition: Number(record[1]), offset: BigInt(record[2]!) };
  }
  const refused = refusedId.exec(text);
  if (refused) return { source: 'refused', consumer: refused[1]!, messageId: refused[2]! };
  const row = rowId.exec(text);
  if (row && (row[1] === 'webhook' || row[3] === undefined)) {
    const uuid = row[2]!.toLowerCase();
    if (row[1] === 'transaction') return { source: 'transaction', txnId: uuid };
    if (row[1] === 'outbox') return { source: 'outbox', eventId: uuid };
    return { source: 'webhook', eventId: uuid, ordinal: Number(row[3] ?? 1) };
  }
  throw new UsageError(
    `'${text}' is no dead letter: expected kafka:<partition>:<offset>, outbox:<event id>, webhook:<delivery id>, transaction:<id> or refused:<consumer>:<message id>`,
  );
}

/** The id as it is shown and recorded; a dead letter has one. */
export function renderDeadLetterId(id: DeadLetterId): string {
  if (id.source === 'kafka') return `kafka:${id.partition}:${id.offset}`;
  if (id.source === 'transaction') return `transaction:${id.txnId}`;
  if (id.source === 'refused') return `refused:${id.consumer}:${id.messageId}`;
  const ordinal = id.source === 'webhook' && id.ordinal > 1 ? `.${id.ordinal}` : '';
  return `${id.source}:${id.eventId}${ordinal}`;
}

/** The record at a place of the dead-letter topic; `undefined` when there is none (any more). */
export function findRecord(
  sources: DeadLetterSources,
  { partition, offset }: { partition: number; offset: bigint },
): Promise<ReceivedRecord | undefined> {
  return withDeadLetterTopic(sources, (reader) => reader.at(partition, offset));
}

async function withDeadLetterTopic<Result>(
  { kafka, topics }: DeadLetterSources,
  read: (reader: ReturnType<typeof openTopicReader>) => Promise<Result>,
): Promise<Result> {
  const reader = openTopicReader({ ...kafka, topic: topics.deadLetter });
  try {
    return await read(reader);
  } finally {
    await reader.close();
  }
}

function deadRecord(record: ReceivedRecord): Found {
  return {
    id: `kafka:${record.partition}:${record.offset}`,
    at: new Date(Number(record.timestamp)),
    partner: headerText(record, 'partner_id'),
    about: record.key?.toString() ?? '',
    reason: headerText(record, 'dead-letter.reason'),
  };
}

function contentsOf(record: ReceivedRecord) {
  const names = Object.keys(record.headers);
  return {
    headers: Object.fromEntries(names.map((name) => [name, headerText(record, name)])),
    value: record.value === null ? null : readable(record.value),
  };
}

/** A message as the consumer that refused it kept it; `data` may be its beginning alone. */
type RefusedRow = {
  consumer: string;
  messageId: string;
  reason: string;
  detail: string;
  at: Date;
  bytes: number;
  data: Buffer;
  attributes: string;
};

/** More than Pub/Sub takes of one message (10 MB). */
const allBytes = 2 ** 30;

/** With all its bytes; `undefined` when the consumer refused none of that id. */
export async function findRefused(
  database: Queryable,
  { consumer, messageId }: { consumer: string; messageId: string },
): Promise<RefusedRow | undefined> {
  const values = [consumer, messageId, allBytes];
  const [row] = await database.query<RefusedRow>(statements.refused, values);
  return row;
}

/** Its attributes, by which it says whose event it is; what it says is not known to be true. */
export function attributesOf({ attributes }: RefusedRow): Record<string, string> {
  return JSON.parse(attributes) as Record<string, string>;
}

function refusedMessage(row: RefusedRow): Found {
  const { consumer, messageId, at, reason, detail } = row;
  return {
    id: renderDeadLetterId({ source: 'refused', consumer, messageId }),
    at,
    partner: '',
    about: attributesOf(row)['txn_id'] ?? '',
    reason: `${reason}: ${detail}`,
  };
}

function refusedContents(row: RefusedRow) {
  return { attributes: attributesOf(row), bytes: row.bytes, value: readable(row.data) };
}

/** Bytes as text, or in base64 where they are none: so that they are the bytes. */
function readable(bytes: Buffer): string | { base64: string } {
  return isUtf8(bytes) ? bytes.toString() : { base64: bytes.toString('base64') };
}

/**
 * Where dead letters are by these settings.
 *
 * @param database as its owner, or as triplock_operator.
 * @throws UsageError where KAFKA_BROKERS is not set.
 */
export function sourcesOf(config: Config, database: Database): DeadLetterSources {
  const { ACCEPTED_TOPIC: accepted, DEAD_LETTER_TOPIC: deadLetter } = config;
  return {
    database,
    kafka: brokersOf({ config }),
    topics: { accepted, deadLetter },
    redriveEvent: (tx, eventId) =>
      withOutbox(config, { ...database, query: tx.query }, (outbox) => outbox.redrive(eventId)),
    publishAgain: (message) => publishOnce(config, message),
  };
}
