import type { TestContext } from 'node:test';
import { openPostgresOutbox } from '@triplock/ledger';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase, createTestTopic } from '@triplock/testing';
import { openDeadLetters } from '@triplock/transport';
import type { DeadLetterSources, MessageOfEvent } from '../dead-letter-sources.ts';

/** Who redrives in these tests. */
export const request = { by: 'ada', why: 'mended', again: false };
export const eventIds = [1, 2, 3].map((n) => `00000000-0000-8000-8000-00000000000${n}`);
export const paymentId = '00000000-0000-8000-8000-0000000000aa';

/** `published`: what was published again, instead of in a topic of Pub/Sub. */
export type Sources = DeadLetterSources & { published: MessageOfEvent[] };

/** A database and topics of a test's own. */
export async function someSources(context: TestContext): Promise<Sources> {
  const database = (await createTestDatabase(context)).open();
  const { brokers, topic: deadLetter } = await createTestTopic(context, { partitions: 2 });
  const { topic: accepted } = await createTestTopic(context);
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const kafka = { brokers, clientId: 'test', logger };
  const redriveEvent: DeadLetterSources['redriveEvent'] = (tx, eventId) =>
    openPostgresOutbox({ ...database, query: tx.query }).redrive(eventId);
  const published: MessageOfEvent[] = [];
  const publishAgain = async (message: MessageOfEvent) => {
    published.push(message);
    return 'published' as const;
  };
  const topics = { accepted, deadLetter };
  return { database, kafka, topics, redriveEvent, publishAgain, published };
}

/** A webhook that was given up. */
export const addGivenUp = (sources: DeadLetterSources) =>
  sources.database.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, attempts,
       first_attempt_at, finished_at, last_error)
     VALUES ($1, 'acme', $2, '{}', 'failed', 9, now() - interval '1 day', now(), 'ECONNREFUSED')`,
    [eventIds[0], paymentId],
  );

/** A record in the dead-letter topic. */
export async function setAside({ kafka, topics }: DeadLetterSources) {
  const deadLetters = openDeadLetters({ ...kafka, topic: topics.deadLetter });
  const record = {
    topic: topics.accepted,
    partition: 0,
    offset: 7n,
    timestamp: '0',
    key: Buffer.from('a key'),
    value: Buffer.from([0, 255, 7]),
    headers: { partner_id: Buffer.from('acme'), 'dead-letter.reason': Buffer.from('its own') },
  };
  await deadLetters.append(record, { reason: 'not_json', detail: 'no JSON' });
  await deadLetters.close();
}
