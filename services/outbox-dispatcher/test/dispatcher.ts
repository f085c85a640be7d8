import type { TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { openPostgresLedger, openPostgresOutbox } from '@triplock/ledger';
import { bucketOf, type AcceptedPayment } from '@triplock/payments';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import {
  aPayment,
  createTestDatabase,
  createTestSubscription,
  createTestTopic,
} from '@triplock/testing';
import {
  openEventArchive,
  openPublisher,
  openSubscriber,
  readEventArchive,
  type IncomingMessage,
  type Publisher,
} from '@triplock/transport';
import { holdLeases } from '../upkeep.ts';
import { dispatcherMetrics } from '../metrics.ts';
import { publishEvents, type Dispatcher } from '../publish-events.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
export const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** What a test wants to be special about a dispatcher. */
export type DispatcherWish = {
  name?: string;
  leaseMs?: number;
  /** 64 by default, so that each bucket has its own. */
  orderingKeys?: number;
  emulatorHost?: string;
  /** Changes how messages leave. */
  wrap?: (publisher: Publisher) => Pick<Publisher, 'publishInOrder'>;
};

const publishLimitMs = 2_000;

/** A ledger with events to publish, and everything that came out at the other end. */
export async function aDispatcherSetup(context: TestContext) {
  const store = await createTestDatabase(context);
  const events = await createTestSubscription(context);
  const told = await createTestTopic(context);
  const archive = openEventArchive({ ...told, clientId: 'test', logger });
  context.after(() => archive.close());
  const owner = store.open();
  const ledger = openPostgresLedger(store.open('triplock_ledger'));

  /** Posts book transfers, so that each has an event that waits. */
  const post = async (...payments: AcceptedPayment[]) => {
    const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    await ledger.post(payments.map((payment) => ({ payment, traceparent, settlement })));
  };
  const dispatcher = (wish: DispatcherWish = {}) => {
    const outbox = openPostgresOutbox(store.open('triplock_dispatcher'));
    const publisher = openPublisher({
      ...events,
      emulatorHost: wish.emulatorHost ?? events.emulatorHost,
      publishLimitMs,
    });
    context.after(() => publisher.close());
    const crashPoints = createCrashPoints();
    const lease = { owner: wish.name ?? 'one', leaseMs: wish.leaseMs ?? 60_000 };
    const parts: Dispatcher = {
      outbox,
      publisher: { ...publisher, ...wish.wrap?.(publisher) },
      archive,
      metrics: dispatcherMetrics(createMetrics('test')),
      crashPoints,
      logger,
      holdLeases: holdLeases(outbox, lease),
      orderingKeys: wish.orderingKeys ?? bucketCount,
      rowsMax: 1_000,
      publishLimitMs,
    };
    return { pass: publishEvents(parts), parts, crashPoints, outbox };
  };
  /** Rows of the outbox in the order of their ids. */
  const rows = () =>
    owner.query<{ eventId: string; bucket: number; state: string; reason: string | null }>(`
      SELECT event_id AS "eventId", bucket, state, parked_reason AS reason
      FROM ledger.outbox ORDER BY order_id`);
  /** Every text of the archive. */
  const archived = async () => {
    const texts: string[] = [];
    const kafka = { ...told, clientId: 'test', logger, since: new Date(0) };
    await readEventArchive(kafka, async (some) => void texts.push(...some.map(String)));
    return texts;
  };
  return {
    store,
    events,
    told,
    archived,
    post,
    dispatcher,
    rows,
    received: receive(context, events),
  };
}

/** What the subscription delivers, copies included, in order within a key. */
function receive(
  context: TestContext,
  events: { projectId: string; emulatorHost: string; subscription: string },
): IncomingMessage[] {
  const received: IncomingMessage[] = [];
  const handle = (message: IncomingMessage) => {
    received.push(message);
    return Promise.resolve('ack' as const);
  };
  const subscriber = openSubscriber({ ...events, maxInFlight: 1_000, logger, handle });
  context.after(() => subscriber.close());
  return received;
}

/** Payments whose events share a bucket. */
export function paymentsOfOneBucket(count: number): AcceptedPayment[] {
  const payments: AcceptedPayment[] = [aPayment()];
  const bucket = bucketOf(payments[0]!.txnId, bucketCount);
  while (payments.length < count) {
    const payment = aPayment();
    if (bucketOf(payment.txnId, bucketCount) === bucket) payments.push(payment);
  }
  return payments;
}
