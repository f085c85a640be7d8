import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import {
  encodePaymentAccepted,
  encodeRefundAccepted,
  type EncodedRecord,
} from '@triplock/contracts';
import { openPostgresLedger, openPostgresRefunds, takeDueFrom } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';
import { openDatabase, type Database } from '@triplock/postgres';
import { openCircuitBreaker, openStripe, type CircuitBreaker } from '@triplock/provider';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import {
  createTestDatabase,
  createTestTopic,
  eventually,
  ofDeadLetters,
  testNamespace,
} from '@triplock/testing';
import {
  openDeadLetters,
  openGroupCommit,
  openTopicOffsets,
  runConsumer,
  type ReceivedRecord,
} from '@triplock/transport';
import { openChargeDesk } from './charge-desk.ts';
import { openDueFinisher } from './finish-due.ts';
import { gatherPostings } from './gather-postings.ts';
import { workerMetrics, type WorkerMetrics } from './metrics.ts';
import { paymentsHandler } from './payments-consumer.ts';
import { openPlaces } from './places.ts';
import { createPostBatch } from './post-batch.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
export const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** A record as a producer other than the gateway may make it. */
export type RawRecord = {
  key: string | null;
  value: Buffer | null;
  headers: Readonly<Record<string, string>>;
};

/** The record that the gateway makes of a payment. */
export function recordOf(payment: AcceptedPayment): EncodedRecord {
  return encodePaymentAccepted(payment, traceparent);
}

/** The record that the gateway makes of a refund. */
export function refundRecordOf(refund: AcceptedRefund): EncodedRecord {
  return encodeRefundAccepted(refund, traceparent);
}

/** A worker's surroundings, its topics and database being one test's own. */
export async function aPipeline(context: TestContext, shape = { partitions: 1 }) {
  const store = await createTestDatabase(context);
  const accepted = await createTestTopic(context, shape);
  const letters = await createTestTopic(context, ofDeadLetters);
  const kafka = { brokers: accepted.brokers, clientId: 'test', logger };
  const log = openGroupCommit({ ...kafka, topic: accepted.topic });
  context.after(() => log.close());

  /** Starts a worker: one of a new group reads the topic from its beginning. */
  const work = (wish: { groupId?: string; databaseUrl?: string } & Partial<Charging> = {}) => {
    const groupId = wish.groupId ?? testNamespace('worker');
    const url = wish.databaseUrl ?? store.url('triplock_ledger');
    const { provider = nobody, handOverMs = 10_000, placesMax = 16 } = wish;
    const parts = openParts(url, { provider, handOverMs, placesMax });
    const deadLetters = openDeadLetters({ ...kafka, topic: letters.topic });
    const place = { ...kafka, topic: accepted.topic, groupId };
    const consumer = runConsumer({
      ...place,
      ...paymentsHandler({ ...parts, deadLetters, logger }),
    });
    const offsets = openTopicOffsets(place);
    context.after(async () => {
      await consumer.close();
      await parts.desk.close();
      await Promise.all([deadLetters.close(), offsets.close(), parts.ledger.close()]);
    });
    const allCommitted = () =>
      eventually(async () => {
        assert.deepEqual(await offsets.committed(), await offsets.end());
        return true;
      });
    return { ...parts, groupId, consumer, offsets, allCommitted };
  };
  return {
    work,
    store,
    /** Of a worker that is a process of its own. */
    settings: settingsOf(store.url('triplock_ledger'), { accepted, letters }),
    owner: store.open(),
    append: (record: RawRecord) => log.append(record as EncodedRecord),
    deadLetters: readAll(context, { ...kafka, topic: letters.topic }),
  };
}

/** Settings of a worker process on given places; of the group nobody is a member yet. */
export function settingsOf(
  databaseUrl: string,
  { accepted, letters }: Record<'accepted' | 'letters', { brokers: string[]; topic: string }>,
) {
  return {
    TRIPLOCK_MODE: 'test',
    KAFKA_BROKERS: accepted.brokers[0]!,
    DATABASE_URL: databaseUrl,
    ACCEPTED_TOPIC: accepted.topic,
    DEAD_LETTER_TOPIC: letters.topic,
    LEDGER_GROUP: testNamespace('worker'),
    STRIPE_API_KEY: 'sk_test_nobody',
    STRIPE_API_URL: 'http://127.0.0.1:1',
  };
}

type Charging = { provider: CircuitBreaker; handOverMs: number; placesMax: number };

function openParts(url: string, { provider, handOverMs, placesMax }: Charging) {
  const onIdleError = () => undefined; // DROP DATABASE ends idle connections, which is no news here.
  const database = openDatabase({ url, applicationName: 'test', onIdleError });
  const ledger = openPostgresLedger(database);
  const metrics = workerMetrics(createMetrics('test'));
  const crashPoints = createCrashPoints();
  const limits = { rowsMax: 500, statementsMax: 2 };
  const post = gatherPostings(createPostBatch({ ledger, metrics }), limits);
  const places = openPlaces(placesMax);
  const refunds = openPostgresRefunds(database);
  const stores = { ledger, refunds };
  const reporting = { crashPoints, metrics, logger };
  const asking = { ...stores, provider, places, actionExpiresMs: dayMs, ...reporting };
  const desk = openChargeDesk({ ...asking, handOverMs });
  const finisher = openDueFinisher({ ...asking, takeDue: takeDueFrom(database) });
  /** Looks after all that is due, and says how many it settled. */
  const resolve = async () => {
    const before = settledBy(metrics);
    while ((await finisher.begin()) > 0);
    await finisher.ended();
    return settledBy(metrics) - before;
  };
  const ours = { finisher, resolve, places };
  return { post, postRowsMax: 500, ledger, desk, refunds, ...ours, metrics, crashPoints };
}

function settledBy({ resolved }: WorkerMetrics): number {
  return resolved.counted().settled ?? 0;
}

const dayMs = 86_400_000;
// Nothing answers there: a test that charges brings its own.
const nobody = aProvider({ apiKey: 'sk_test', url: 'http://127.0.0.1:1' });

/** Stripe at a place of a test's own, left alone for a moment after ten unknown outcomes. */
export function aProvider(
  { apiKey, url: apiUrl }: { apiKey: string; url: string },
  { timeoutMs } = { timeoutMs: 1_000 },
): CircuitBreaker {
  const stripe = openStripe({ apiKey, apiUrl, timeoutMs });
  return openCircuitBreaker(stripe, { unknownInARowMax: 10, openMs: 200 });
}

/** What a topic has, as it comes. */
function readAll(
  context: TestContext,
  place: { brokers: string[]; clientId: string; logger: typeof logger; topic: string },
): ReceivedRecord[] {
  const read: ReceivedRecord[] = [];
  const groupId = testNamespace('reader');
  const handle = async (batch: { records: readonly ReceivedRecord[] }) =>
    void read.push(...batch.records);
  const consumer = runConsumer({ ...place, groupId, handle });
  context.after(() => consumer.close());
  return read;
}

/** How much of everything the ledger has. */
export async function ledgerCounts(database: Database) {
  const [counts] = await database.query<{ rows: number; entries: number; events: number }>(`
    SELECT (SELECT count(*) FROM ledger.transactions)::int AS rows,
           (SELECT count(*) FROM ledger.entries)::int AS entries,
           (SELECT count(*) FROM ledger.outbox)::int AS events`);
  return counts!;
}

/** Records of a worker by outcome, redeliveries included. */
export function outcomesOf({ metrics }: ReturnType<typeof openParts>) {
  return metrics.records.counted();
}
