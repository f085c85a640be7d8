import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import {
  headerText,
  openTopicReader,
  redriveRecord,
  type BrokerConnection,
  type ReceivedRecord,
} from '@triplock/transport';
import type { EventId } from '@triplock/payments';
import { UsageError } from './command.ts';
import { lastRedrives, recordRedrive, type Actor, type Redriven } from './operator-acts.ts';

const statements = loadStatements(import.meta.url, 'dead-letters.sql', [
  'list',
  'showEvent',
  'showDelivery',
  'showTransaction',
  'wakeTransaction',
  'renewDelivery',
  'renewDeliveries',
  'clock',
]);

/** Where dead letters are kept. The database is seen as its owner sees it. */
export type DeadLetterSources = {
  database: Database;
  kafka: BrokerConnection;
  topics: { accepted: string; deadLetter: string };
  /** Gives a parked event back; an outbox in PostgreSQL within that transaction. */
  redriveEvent: (tx: Queryable, eventId: EventId) => Promise<EventId[]>;
};

/**
 * One dead letter: its offset in the dead-letter topic, the event that could not go on, or the
 * transaction that comes to no end.
 */
export type DeadLetterId =
  | { source: 'kafka'; partition: number; offset: bigint }
  | { source: 'outbox'; eventId: string }
  /** Of the event's deliveries the one with this number. */
  | { source: 'webhook'; eventId: string; ordinal: number }
  | { source: 'transaction'; txnId: string };

/** One dead letter in a list. `about` is the transaction, or the key of a record that is none. */
export type DeadLetter = {
  id: string;
  at: Date;
  partner: string;
  about: string;
  reason: string;
  redriven: Redriven | null;
};

/** Who asks for a redrive. `again`: also for what was redriven before. */
export type RedriveRequest = Actor & { again: boolean };

/** What came of redriving one dead letter. Only `redriven` did anything. */
export type RedriveOutcome =
  | { outcome: 'redriven'; ids: string[] }
  | { outcome: 'redriven-before'; last: Redriven }
  | { outcome: 'not-found' };

/** Everything that is set aside, oldest first within Kafka and within the database. */
export async function listDeadLetters(sources: DeadLetterSources): Promise<DeadLetter[]> {
  return [...(await listDeadRecords(sources)), ...(await listDeadRows(sources.database))];
}

/** Those of Kafka. */
export async function listDeadRecords(sources: DeadLetterSources): Promise<DeadLetter[]> {
  const records = await withDeadLetterTopic(sources, (reader) => reader.newest());
  return withRedrives(sources.database, records.map(deadRecord));
}

/** Those of the database. */
export async function listDeadRows(database: Queryable): Promise<DeadLetter[]> {
  const rows = await database.query<Omit<DeadLetter, 'redriven'>>(statements.list);
  return withRedrives(database, rows);
}

async function withRedrives(
  database: Queryable,
  found: readonly Omit<DeadLetter, 'redriven'>[],
): Promise<DeadLetter[]> {
  const ids = found.map(({ id }) => id);
  const redriven = await lastRedrives(database, ids);
  return found.map((each) => ({ ...each, redriven: redriven.get(each.id) ?? null }));
}

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
    default:
      return id satisfies never;
  }
}

/**
 * Gives a dead letter back to where it came from: a record to the accepted topic with its original
 * key, bytes and headers, an event to the dispatchers, a webhook to the senders, a transaction to
 * the workers' resolver. The act is recorded in the same transaction.
 *
 * Dying after Kafka's ack and before the commit leaves a redrive that nobody recorded; repeated, it
 * makes a second copy, which the ledger knows. So does dying after Spanner gave an event back; it
 * is not parked any more, and repeated nothing is found.
 */
export function redrive(
  sources: DeadLetterSources,
  id: DeadLetterId,
  request: RedriveRequest,
): Promise<RedriveOutcome> {
  const subject = renderDeadLetterId(id);
  return sources.database
    .transaction(async (tx): Promise<RedriveOutcome> => {
      if ((await recordRedrive(tx, subject, request)) === 'redriven-before') {
        const last = (await lastRedrives(tx, [subject])).get(subject)!;
        return { outcome: 'redriven-before', last };
      }
      const ids = await giveBack(sources, tx, id);
      if (ids.length === 0) throw new NotFound();
      return { outcome: 'redriven', ids };
    })
    .catch((error: unknown) => {
      if (error instanceof NotFound) return { outcome: 'not-found' };
      throw error;
    });
}

/** Webhooks of one partner, by when they were made: from `since` on and before `until`. */
export type WebhookWindow = { partner: string; since?: Date; until?: Date };

const webhooksAtOnce = 1_000;

/**
 * Gives every webhook of a partner's window back to the senders that was given up before this call,
 * and returns how many. Each is recorded as if it had been redriven by its id. One that is not
 * given up is left as it is, so calling twice does what calling once does.
 *
 * They go batch by batch, each with its record: a crash leaves the rest given up, for the next
 * call.
 */
export async function redriveWindow(
  { database }: Pick<DeadLetterSources, 'database'>,
  { partner, since, until }: WebhookWindow,
  { by, why }: Actor,
): Promise<number> {
  const [clock] = await database.query<{ now: string }>(statements.clock);
  const asked = [partner, since?.toISOString(), until?.toISOString(), clock!.now, by, why];
  let redriven = 0;
  for (;;) {
    const batch = await database.query(statements.renewDeliveries, [...asked, webhooksAtOnce]);
    if (batch.length === 0) return redriven;
    redriven += batch.length;
  }
}

const kafkaId = /^kafka:(\d{1,9}):(\d{1,18})$/;
const rowId =
  /^(outbox|webhook|transaction):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([2-9]|[1-9]\d))?$/i;

/** @throws UsageError when the text is no id of a dead letter. */
export function parseDeadLetterId(text: string): DeadLetterId {
  const record = kafkaId.exec(text);
  if (record) {
    return { source: 'kafka', partition: Number(record[1]), offset: BigInt(record[2]!) };
  }
  const row = rowId.exec(text);
  if (row && (row[1] === 'webhook' || row[3] === undefined)) {
    const uuid = row[2]!.toLowerCase();
    if (row[1] === 'transaction') return { source: 'transaction', txnId: uuid };
    if (row[1] === 'outbox') return { source: 'outbox', eventId: uuid };
    return { source: 'webhook', eventId: uuid, ordinal: Number(row[3] ?? 1) };
  }
  throw new UsageError(
    `'${text}' is no dead letter: expected kafka:<partition>:<offset>, outbox:<event id>, webhook:<delivery id> or transaction:<id>`,
  );
}

/** The id as it is shown and recorded; a dead letter has one. */
export function renderDeadLetterId(id: DeadLetterId): string {
  if (id.source === 'kafka') return `kafka:${id.partition}:${id.offset}`;
  if (id.source === 'transaction') return `transaction:${id.txnId}`;
  const ordinal = id.source === 'webhook' && id.ordinal > 1 ? `.${id.ordinal}` : '';
  return `${id.source}:${id.eventId}${ordinal}`;
}

/** Leaves the transaction so that an act on nothing is not recorded. */
class NotFound extends Error {
  override name = 'NotFound';
}

/** Gives the ids of what goes on again; none when there is no such dead letter. */
async function giveBack(
  sources: DeadLetterSources,
  tx: Queryable,
  id: DeadLetterId,
): Promise<string[]> {
  switch (id.source) {
    case 'kafka': {
      const record = await findRecord(sources, id);
      if (record === undefined) return [];
      await redriveRecord({ ...sources.kafka, topic: sources.topics.accepted }, record);
      return [record.key?.toString() ?? renderDeadLetterId(id)];
    }
    case 'outbox':
      return sources.redriveEvent(tx, id.eventId as EventId);
    case 'webhook':
      return eventIds(await tx.query(statements.renewDelivery, [id.eventId, id.ordinal]));
    case 'transaction':
      return eventIds(await tx.query(statements.wakeTransaction, [id.txnId]));
    default:
      return id satisfies never;
  }
}

function eventIds(rows: readonly { event_id?: string }[]): string[] {
  return rows.map((row) => row.event_id!);
}

function findRecord(
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

function deadRecord(record: ReceivedRecord): Omit<DeadLetter, 'redriven'> {
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
    value: record.value?.toString() ?? null,
  };
}
