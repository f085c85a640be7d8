import { loadSql, type Database, type Queryable } from '@triplock/postgres';
import type { Kafka } from 'kafkajs';
import { renderLetterId, type LetterId } from './letter-id.ts';
import { headerText, originalHeaders, readLetters, type KafkaLetter } from './read-letters.ts';

const sql = (name: string) => loadSql(import.meta.url, `sql/${name}.sql`);
const listLettersSql = sql('list-letters');
const lastRedrivesSql = sql('last-redrives');
const recordRedriveSql = sql('record-redrive');
const releaseParkedSql = sql('release-parked');
const renewDeliverySql = sql('renew-delivery');
const showEventSql = sql('show-event');
const showDeliverySql = sql('show-delivery');

/** Where dead letters lie. The database is seen as its owner sees it. */
export type Stores = {
  database: Database;
  kafka: Kafka;
  topics: { accepted: string; deadLetter: string };
};

/** Who redrove a letter last, when and why. */
export type Redriven = { by: string; at: Date; why: string | null };

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
export type RedriveRequest = { by: string; why: string | null; again: boolean };

/** What came of redriving one letter. Only `redriven` did anything. */
export type RedriveOutcome =
  | { outcome: 'redriven'; ids: string[] }
  | { outcome: 'redriven-before'; last: Redriven }
  | { outcome: 'not-found' };

/** Everything that is set aside, oldest first within Kafka and within the database. */
export async function listDeadLetters(stores: Stores): Promise<DeadLetter[]> {
  const { database, kafka, topics } = stores;
  const records = await readLetters(kafka, { topic: topics.deadLetter });
  const rows = await database.query<Omit<DeadLetter, 'redriven'>>(listLettersSql);
  const letters = [...records.map(listed), ...rows];
  const redriven = await lastRedrives(database, letters);
  return letters.map((letter) => ({ ...letter, redriven: redriven.get(letter.id) ?? null }));
}

/** All that is known of one letter; undefined when there is none of that id. */
export async function showDeadLetter(stores: Stores, id: LetterId): Promise<object | undefined> {
  if (id.source === 'kafka') {
    const letter = await findRecord(stores, id);
    return letter && { ...listed(letter), ...shown(letter) };
  }
  const statement = id.source === 'outbox' ? showEventSql : showDeliverySql;
  const rows = await stores.database.query(statement, [id.eventId]);
  const known = { outbox: 'events', webhook: 'attempts' } as const;
  return rows.length === 0 ? undefined : { id: renderLetterId(id), [known[id.source]]: rows };
}

/**
 * Gives a dead letter back to where it came from: a record to the accepted topic with its original
 * key, bytes and headers, an event to the dispatchers, a webhook to the senders. The act is
 * recorded in the same transaction.
 *
 * Dying after Kafka's ack and before the commit leaves a redrive that nobody recorded; repeated, it
 * makes a second copy, which the ledger knows.
 */
export function redrive(
  stores: Stores,
  id: LetterId,
  request: RedriveRequest,
): Promise<RedriveOutcome> {
  const subject = renderLetterId(id);
  return stores.database
    .transaction(async (tx): Promise<RedriveOutcome> => {
      await tx.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [subject]);
      const parameters = [subject, request.by, request.why, request.again];
      const recorded = await tx.query(recordRedriveSql, parameters);
      if (recorded.length === 0) {
        const last = (await lastRedrives(tx, [{ id: subject }])).get(subject)!;
        return { outcome: 'redriven-before', last };
      }
      const ids = await giveBack(stores, tx, id);
      if (ids.length === 0) throw new NotFound();
      return { outcome: 'redriven', ids };
    })
    .catch((error: unknown) => {
      if (error instanceof NotFound) return { outcome: 'not-found' };
      throw error;
    });
}

/** Leaves the transaction so that an act on nothing is not recorded. */
class NotFound extends Error {
  override name = 'NotFound';
}

async function giveBack(stores: Stores, tx: Queryable, id: LetterId): Promise<string[]> {
  if (id.source === 'kafka') return produceAgain(stores, id);
  const statement = id.source === 'outbox' ? releaseParkedSql : renewDeliverySql;
  const rows = await tx.query<{ event_id: string }>(statement, [id.eventId]);
  return rows.map((row) => row.event_id);
}

async function produceAgain(
  stores: Stores,
  id: Extract<LetterId, { source: 'kafka' }>,
): Promise<string[]> {
  const letter = await findRecord(stores, id);
  if (letter === undefined) return [];
  const producer = stores.kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  try {
    const message = { key: letter.key, value: letter.value, headers: originalHeaders(letter) };
    await producer.send({ topic: stores.topics.accepted, acks: -1, messages: [message] });
  } finally {
    await producer.disconnect();
  }
  return [letter.key?.toString() ?? renderLetterId(id)];
}

async function findRecord(
  { kafka, topics }: Stores,
  { partition, offset }: Extract<LetterId, { source: 'kafka' }>,
): Promise<KafkaLetter | undefined> {
  const place = { partition, offset };
  const [letter] = await readLetters(kafka, { topic: topics.deadLetter, only: place });
  return letter;
}

async function lastRedrives(
  database: Queryable,
  letters: readonly { id: string }[],
): Promise<Map<string, Redriven>> {
  const ids = letters.map(({ id }) => id);
  const rows = await database.query<Redriven & { id: string }>(lastRedrivesSql, [ids]);
  return new Map(rows.map(({ id, ...redriven }) => [id, redriven]));
}

function listed(letter: KafkaLetter): Omit<DeadLetter, 'redriven'> {
  return {
    id: `kafka:${letter.partition}:${letter.offset}`,
    at: letter.at,
    partner: headerText(letter, 'partner_id'),
    about: letter.key?.toString() ?? '',
    reason: headerText(letter, 'dead-letter.reason'),
  };
}

function shown(letter: KafkaLetter) {
  const names = Object.keys(letter.headers);
  return {
    headers: Object.fromEntries(names.map((name) => [name, headerText(letter, name)])),
    value: letter.value?.toString() ?? null,
  };
}
