import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import {
  encodePaymentAccepted,
  encodeFollowUpAccepted,
  type EncodedRecord,
} from '@triplock/contracts';
import {
  openPostgresLedger,
  openPostgresFollowUps,
  openPostgresOutbox,
  takeDueFrom,
  wakeDueIn,
} from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp } from '@triplock/payments';
import { openDatabase, type Database } from '@triplock/postgres';
import {
  openCircuitBreaker,
  type CircuitBreaker,
  type CircuitBreakerLimits,
} from '@triplock/provider';
import { openStripe } from '@triplock/provider-stripe';
import { providerNames, type ListedProvider } from '@triplock/providers';
import { createCrashPoints, createLogger, createMetrics, sealingKeys } from '@triplock/runtime';
import {
  aPayment,
  createTestDatabase,
  createTestTopic,
  emptyTestTopic,
  eventually,
  freePort,
  ofDeadLetters,
  patientAppends,
  testNamespace,
  testSealingKeys,
} from '@triplock/testing';
import {
  openDeadLetters,
  openGroupCommit,
  openTopicOffsets,
  runConsumer,
  type ReceivedRecord,
} from '@triplock/transport';
import { openAhead, type AheadLimits } from '../batch/ahead.ts';
import { paymentsHandler, reportRecords } from '../batch/consumer.ts';
import { workerMetrics } from '../metrics.ts';
import { openPosting } from '../batch/posting.ts';
import { askedAt } from '../providers.ts';
import { resolverPass, resolvingsOf } from '../resolver.ts';
import type { Worker, WorkerLimits, Providers } from '../worker.ts';

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
export function refundRecordOf(refund: AcceptedFollowUp): EncodedRecord {
  return encodeFollowUpAccepted(refund, traceparent);
}

/** A worker's surroundings, its topics and database being one test's own. */
export async function aPipeline(context: TestContext, shape = { partitions: 1 }) {
  const store = await createTestDatabase(context);
  const accepted = await createTestTopic(context, shape);
  const dead = await createTestTopic(context, ofDeadLetters);
  const kafka = { brokers: accepted.brokers, clientId: 'test', logger };
  const log = openGroupCommit({ ...kafka, topic: accepted.topic, limits: patientAppends });
  context.after(() => log.close());

  /** Starts a worker: one of a new group reads the topic from its beginning. */
  const work = (wish: WorkerWish = {}) => {
    const groupId = wish.groupId ?? testNamespace('worker');
    const url = wish.databaseUrl ?? store.url('triplock_ledger');
    const { provider = nobody, handOverMs = 10_000, slotsMax = 16 } = wish;
    const charging = { provider, handOverMs, slotsMax, actionExpiresMs: dayMs, ...wish };
    const deadLetters = openDeadLetters({ ...kafka, topic: dead.topic });
    const worker = openWorker(url, { ...charging, deadLetters });
    const consumed = { ...kafka, topic: accepted.topic, groupId };
    const ahead = openAhead(
      worker,
      { ...kafka, topic: accepted.topic, driver: 'platformatic' },
      {
        report: (batch, outcomes) => {
          wish.onAhead?.(batch.records);
          reportRecords(worker, batch, outcomes);
        },
        onBehind: () => {},
        server: openPostgresOutbox(store.open('triplock_ledger')).server,
      },
      wish.ahead,
    );
    const handler = paymentsHandler(worker, ahead);
    const held = wish.until ?? Promise.resolve();
    const handle: typeof handler.handle = async (batch) => {
      ahead.at({ ...batch, next: batch.records[0]!.offset });
      await held;
      await handler.handle(batch);
    };
    const consumer = runConsumer({ ...consumed, ...handler, handle });
    const offsets = openTopicOffsets(consumed);
    context.after(async () => {
      await consumer.close();
      await worker.drain();
      await Promise.all([deadLetters.close(), offsets.close(), worker.ledger.close()]);
    });
    const allCommitted = () =>
      eventually(async () => {
        assert.deepEqual(await offsets.committed(), await offsets.end());
        return true;
      });
    return { ...worker, worker, groupId, consumer, offsets, allCommitted, ahead };
  };
  return {
    work,
    store,
    /** Of a worker that is a process of its own. */
    settings: settingsOf(store.url('triplock_ledger'), { accepted, dead }),
    owner: store.open(),
    append: (record: RawRecord) => log.append(record as EncodedRecord),
    /** Has Kafka drop everything that was accepted, as retention does. */
    drop: () => emptyTestTopic(accepted),
    deadLetters: readAll(context, { ...kafka, topic: dead.topic }),
  };
}

/** What a worker is to do otherwise than by default. */
export type WorkerWish = {
  groupId?: string;
  databaseUrl?: string;
  /** Who reads ahead does so on demand, and by the usual limits nothing in a test. */
  ahead?: AheadLimits;
  /** Called with what was done ahead. */
  onAhead?: (records: readonly ReceivedRecord[]) => void;
  /** It has its first batch, and does nothing of it before this resolves. */
  until?: Promise<void>;
} & Partial<Charging>;

/** Settings of a worker process on given topics; of the group nobody is a member yet. */
export function settingsOf(
  databaseUrl: string,
  { accepted, dead }: Record<'accepted' | 'dead', { brokers: string[]; topic: string }>,
) {
  return {
    TRIPLOCK_MODE: 'test',
    KAFKA_BROKERS: accepted.brokers[0]!,
    DATABASE_URL: databaseUrl,
    ACCEPTED_TOPIC: accepted.topic,
    DEAD_LETTER_TOPIC: dead.topic,
    // Nobody tells anything here: it is only asked how far it is.
    TOLD_TOPIC: dead.topic,
    LEDGER_GROUP: testNamespace('worker'),
    STRIPE_API_KEY: 'sk_test_nobody',
    STRIPE_API_URL: 'http://127.0.0.1:1',
  };
}

type Charging = Pick<WorkerLimits, 'handOverMs' | 'actionExpiresMs'> & {
  provider: CircuitBreaker;
  slotsMax: number;
};

/** A worker as `main.ts` makes one, but for its consumer, and a resolver that runs on demand. */
function openWorker(
  url: string,
  {
    provider,
    handOverMs,
    actionExpiresMs,
    slotsMax,
    deadLetters,
  }: Charging & Pick<Worker, 'deadLetters'>,
) {
  const onIdleError = () => undefined; // DROP DATABASE ends idle connections, which is no news here.
  const database = openDatabase({ url, applicationName: 'test', onIdleError });
  const ledger = openPostgresLedger(database);
  const metrics = workerMetrics(createMetrics('test'));
  const worker: Worker = {
    ledger,
    followUps: openPostgresFollowUps(database),
    providers: providersWith({ stripe: provider }, slotsMax),
    deadLetters,
    actionKeys: sealingKeys.parse(testSealingKeys)!,
    takeDue: takeDueFrom(database),
    wakeDue: wakeDueIn(database),
    post: openPosting({ ledger, metrics }, { rowsMax: 500, statementsMax: 2 }),
    inFlight: new Set(),
    limits: { postRowsMax: 500, slotWaitMs: handOverMs, handOverMs, actionExpiresMs },
    metrics,
    crashPoints: createCrashPoints(),
    logger,
  };
  const passes = resolvingsOf(worker).map((each) => resolverPass(worker, each));
  const resolverOnce = async () => {
    const taken = await Promise.all(passes.map((pass) => pass()));
    return taken.reduce((sum, rows) => sum + rows, 0);
  };
  const drain = async () => void (await Promise.all(worker.inFlight));
  const settled = () => metrics.resolved.counted().settled ?? 0;
  /** Looks after all that is due, and returns how many it settled. */
  const resolve = async () => {
    const before = settled();
    while ((await resolverOnce()) > 0);
    await drain();
    return settled() - before;
  };
  return { ...worker, resolverOnce, drain, resolve };
}

const dayMs = 86_400_000;
// Nothing answers there: a test that charges brings its own.
const nobody = aProvider({ apiKey: 'sk_test', url: 'http://127.0.0.1:1' });

/** Stripe at a URL of a test's own, left alone for a moment after ten unknown outcomes. */
export function aProvider(
  { apiKey, url: apiUrl }: { apiKey: string; url: string },
  { timeoutMs = 1_000, ...more }: { timeoutMs?: number } & Partial<CircuitBreakerLimits> = {},
): CircuitBreaker {
  const stripe = openStripe({ apiKey, apiUrl, timeoutMs });
  return openCircuitBreaker(stripe, { unknownInARowMax: 10, openMs: 200, ...more });
}

/** The same without its call that charges at once, as providers are that have none. */
export function stepByStep({ charge: _, ...provider }: CircuitBreaker): CircuitBreaker {
  return provider;
}

/** The providers of a worker; who is not given answers nobody. */
export function providersWith(
  given: Partial<Record<ListedProvider, CircuitBreaker>>,
  slotsMax = 16,
): Providers {
  const all = providerNames.map((name) => [name, given[name] ?? nobody] as const);
  const breakers = Object.fromEntries(all) as Record<ListedProvider, CircuitBreaker>;
  return askedAt(breakers, { offered: Object.keys(given) as ListedProvider[], slotsMax });
}

/** What a topic has, as it comes. */
function readAll(
  context: TestContext,
  from: { brokers: string[]; clientId: string; logger: typeof logger; topic: string },
): ReceivedRecord[] {
  const read: ReceivedRecord[] = [];
  const groupId = testNamespace('reader');
  const handle = async (batch: { records: readonly ReceivedRecord[] }) =>
    void read.push(...batch.records);
  const consumer = runConsumer({ ...from, groupId, handle });
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
export function outcomesOf({ metrics }: Worker) {
  return metrics.records.counted();
}

/** A book transfer of 10.00. */
export const aTransfer = () => aPayment({ amount: 1_000n });
/** A card payment of 10.00. */
export const aCard = (paymentMethod = 'pm_card_visa') =>
  aPayment({ amount: 1_000n, paymentMethod });

/** A way to a server that can be closed: nothing listens until `open`, and `cut` ends it again. */
export async function closedWayTo(context: TestContext, target: { host: string; port: number }) {
  const port = await freePort();
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      // A broken side ends the other; what it means is for the two ends to find out.
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
    }
  });
  const cut = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  context.after(cut);
  return {
    port,
    cut,
    open: async () => {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}
