import type { PaymentEventAttributes } from '@triplock/contracts';
import type { BucketLease, Outbox, OutboxEvent } from '@triplock/ledger';
import {
  backoffMs,
  inBatchSpan,
  isTracing,
  openSpan,
  runListener,
  runLoop,
  untracedSpan,
  type CrashPoints,
  type Logger,
  type Loop,
  type OpenSpan,
  type Pass,
} from '@triplock/runtime';
import type { EventArchive, OutgoingMessage, Publisher, PublishOutcome } from '@triplock/transport';
import type { HeldLeases, LeaseHolder } from './upkeep.ts';
import type { DispatcherMetrics } from './metrics.ts';

/** What publishing stands on. */
export type Dispatcher = {
  outbox: Outbox;
  publisher: Publisher;
  /** Has each event before it is published: what was told outlives a restore of the ledger. */
  archive: Pick<EventArchive, 'append'>;
  holdLeases: LeaseHolder;
  /** In how many ordering keys the buckets leave. */
  orderingKeys: number;
  /** Rows of one pass. */
  rowsMax: number;
  /** Bounds all that is sent of one key in a pass; milliseconds. */
  publishLimitMs: number;
  metrics: DispatcherMetrics;
  crashPoints: CrashPoints;
  logger: Logger;
};

/** What is left of the lease for the mark, when a publish took as long as it may. */
const markMs = 500;
// How long to rest while nothing comes, ever longer. Where the outbox notifies, a look is for the
// events that it did not announce: their worker died, or a connection was lost.
const rests = {
  notified: { firstMs: 250, maxMs: 2_000 },
  polling: { firstMs: 50, maxMs: 1_000 },
};
// What comes within this time leaves together: a look, a request and a commit cost more than the
// events in them.
const apartMs = 50;

/** Publishes until stopped. Stopping finishes the pass and gives the buckets to the others. */
export function runPublishing(dispatcher: Dispatcher, owner: string): Pick<Loop, 'stop'> {
  const { outbox, logger } = dispatcher;
  const { listen } = outbox;
  // A rest ends when leases are due, or a takeover would take longer.
  let askAgainAt = -Infinity;
  const holdLeases = async () => {
    const held = await dispatcher.holdLeases();
    ({ askAgainAt } = held);
    return held;
  };
  const restMs = (idleBefore: number) => {
    const untilAsked = Math.max(apartMs, askAgainAt - performance.now());
    return Math.min(untilAsked, backoffMs(idleBefore, listen ? rests.notified : rests.polling));
  };
  const loop = runLoop(publishEvents({ ...dispatcher, holdLeases }), {
    name: 'publish',
    idleMs: restMs,
    apartMs,
    logger,
  });
  const listening = listen && runListener(listen, loop.wake, logger);
  return {
    stop: async () => {
      await listening?.stop();
      await loop.stop();
      await outbox.releaseBuckets(owner);
    },
  };
}

/**
 * One pass: hold the leases, take what waits in them, archive it, publish each key in order, side
 * by side.
 *
 * Whoever hears of an event may act on it, so it is in the archive before: a crash between the two
 * leaves one there that nobody was told of, which is told later all the same. While the archive
 * cannot be reached nothing is published.
 *
 * A PublishRequest carries one ordering key only, so buckets share keys: all events of a bucket
 * have the same key, and the order within a payment is the one that counts. A dispatcher with
 * another number of keys, as during an upgrade, has other buckets. But once a bucket is its own,
 * what it publishes may overtake what left before under the old key: the inboxes keep what comes
 * early.
 *
 * The pass counts what left the outbox. When nothing could leave because the broker does not
 * answer, it throws, and the loop tries again after a while.
 */
export function publishEvents(dispatcher: Dispatcher): Pass {
  const { outbox, holdLeases, orderingKeys, rowsMax, publishLimitMs, metrics, crashPoints } =
    dispatcher;
  const archive = archiveOnce(dispatcher);
  return async () => {
    const { leases, validUntil, server } = await holdLeases();
    metrics.leases.set(leases.size);
    if (leases.size === 0) return 0;
    await crashPoints.reached('dispatcher.leased');
    const rows = await outbox.take([...leases.values()], rowsMax);
    await archive(rows);
    if (rows.length > 0) {
      await crashPoints.reached('dispatcher.archived');
      await requireServer(outbox, server);
    }

    // A publish that begins now must end, and be marked, while the bucket is certainly ours.
    // Pub/Sub checks no epoch: a paused process that wakes up later publishes copies, and the inbox
    // absorbs those.
    if (performance.now() + publishLimitMs + markMs > validUntil) return 0;
    // All are waited for, whatever becomes of one: a publish still under way while the next pass
    // takes the same rows would break the bucket's order.
    const outcomes = await Promise.allSettled(
      [...Map.groupBy(rows, ({ bucket }) => `key-${bucket % orderingKeys}`)].map(([key, ofKey]) =>
        publishKey(dispatcher, leases, { key, rows: ofKey }),
      ),
    );
    return countDone(outcomes);
  };
}

/**
 * Sees that the server which had the leases answers still, once what was taken is in the archive.
 * Whoever looks there when another one has taken over finds it then; what comes into the archive
 * after that look must be told to nobody, for it may be decided anew meanwhile (worker,
 * continuity.ts).
 *
 * @throws when another one answers: what is its own is taken anew.
 */
async function requireServer(outbox: Outbox, held: string | undefined): Promise<void> {
  const server = await outbox.server?.();
  if (server === held) return;
  throw new Error('another server has the outbox by now: what was taken before is not published');
}

/**
 * Archives rows that the pass before has not: a broker that is away has them taken at each pass.
 * By their text, since another server may have another one under the same id.
 */
function archiveOnce({ archive }: Dispatcher): (rows: readonly OutboxEvent[]) => Promise<void> {
  let archived: ReadonlyMap<string, string> = new Map();
  return async (rows) => {
    const fresh = rows.filter(({ id, payload }) => archived.get(id) !== payload);
    if (fresh.length > 0) await archive.append(fresh.map(({ payload }) => payload));
    archived = new Map(rows.map(({ id, payload }) => [id, payload]));
  };
}

/** Rows of the buckets that share an ordering key, in order within each payment. */
type RowsOfKey = { key: string; rows: readonly OutboxEvent[] };

/** What came of one key's rows. `failure`: why some still wait. */
type KeyOutcome = { done: number; failure?: Error };

/**
 * Publishes a key's rows in order and marks those that Pub/Sub has acknowledged.
 *
 * A crash between the ack and the mark leaves published rows pending: the next dispatcher to hold
 * their bucket publishes them again under the same event ids, which every inbox knows. After a
 * failure nothing later in the key is sent, so the order holds; the rows stay pending.
 */
async function publishKey(
  dispatcher: Dispatcher,
  leases: HeldLeases['leases'],
  { key, rows }: RowsOfKey,
): Promise<KeyOutcome> {
  const followed = rows.map(followEvent);
  try {
    const of = () => followed.map(({ row }) => row.traceparent);
    return await inBatchSpan({ name: 'publish batch', of }, () =>
      publishFollowed(dispatcher, leases, { key, followed }),
    );
  } catch (error) {
    for (const { span } of followed) span.fail(error);
    throw error;
  }
}

async function publishFollowed(
  dispatcher: Dispatcher,
  leases: HeldLeases['leases'],
  { key, followed }: { key: string; followed: readonly FollowedEvent[] },
): Promise<KeyOutcome> {
  const rows = followed.map(({ row }) => row);
  const { publisher, metrics } = dispatcher;
  const end = metrics.publishSeconds.start();
  const outcomes = await publisher.publishInOrder(rows.map((row) => messageOf(row, key)));
  await endPublished(followed, outcomes);
  const published = countPublished(outcomes);
  end(outcomes[published]?.outcome ?? 'published');
  if (published > 0) await mark(dispatcher, leases, rows.slice(0, published));

  const stopped = outcomes[published];
  switch (stopped?.outcome) {
    case undefined:
    case 'published':
      return { done: published };
    case 'unknown':
      metrics.events.count('unknown', rows.length - published);
      return { done: published, failure: stopped.error };
    case 'unpublishable': {
      const row = rows[published]!;
      const lease = leases.get(row.bucket)!;
      return { done: published + (await park(dispatcher, lease, row, stopped.error)) };
    }
    default:
      return stopped satisfies never;
  }
}

function countDone(outcomes: readonly PromiseSettledResult<KeyOutcome>[]): number {
  let done = 0;
  let failure: Error | undefined;
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') done += outcome.value.done;
    failure ??= outcome.status === 'fulfilled' ? outcome.value.failure : (outcome.reason as Error);
  }
  if (done === 0 && failure !== undefined) throw failure;
  return done;
}

function messageOf(row: OutboxEvent, key: string): OutgoingMessage {
  const attributes: PaymentEventAttributes = {
    event_id: row.id,
    event_type: row.type,
    txn_id: row.subject,
    payment_id: row.orderingKey,
    ...(row.sequence === undefined ? {} : { sequence: String(row.sequence) }),
    traceparent: row.traceparent,
  };
  return { orderingKey: key, data: Buffer.from(row.payload), attributes };
}

function countPublished(outcomes: readonly PublishOutcome[]): number {
  const first = outcomes.findIndex(({ outcome }) => outcome !== 'published');
  return first === -1 ? outcomes.length : first;
}

async function mark(
  { outbox, metrics, crashPoints, logger }: Dispatcher,
  leases: HeldLeases['leases'],
  rows: readonly OutboxEvent[],
): Promise<void> {
  metrics.events.count('published', rows.length);
  await crashPoints.reached('dispatcher.published');
  const markBucket = async (bucket: number, ofBucket: readonly OutboxEvent[]) => {
    const lease = leases.get(bucket)!;
    const eventIds = ofBucket.map((row) => row.id);
    const marked = await outbox.markPublished(lease, eventIds);
    if (marked === eventIds.length) return;
    metrics.unmarked.inc(eventIds.length - marked);
    logger.warn(
      { bucket, epoch: String(lease.epoch), published: eventIds.length, marked },
      'the lease was lost before the mark: its next owner publishes these events again',
    );
  };
  const byBucket = Map.groupBy(rows, (row) => row.bucket);
  await Promise.all([...byBucket].map(([bucket, ofBucket]) => markBucket(bucket, ofBucket)));
  await crashPoints.reached('dispatcher.marked');
}

/** A poison message must not hold up its key: it is set aside, and a person has to look. */
async function park(
  { outbox, metrics, logger }: Dispatcher,
  lease: BucketLease,
  row: OutboxEvent,
  error: Error,
): Promise<number> {
  const parked = await outbox.park(lease, { eventId: row.id, reason: error.message });
  metrics.events.count('parked', parked);
  logger.error(
    { err: error, eventId: row.id, txnId: row.subject, parked },
    'an event can never be published and was parked with the later events of its payment',
  );
  return parked;
}

/** An event and the span in which it leaves; the row says what its message carries on. */
type FollowedEvent = { row: OutboxEvent; span: OpenSpan };

/** Opens the span of one event, in the trace of the work that wrote it into the outbox. */
function followEvent(row: OutboxEvent): FollowedEvent {
  if (!isTracing()) return { row, span: untracedSpan };
  const span = openSpan({
    name: 'publish outbox event',
    kind: 'producer',
    parent: row.traceparent,
    attributes: {
      'messaging.system': 'gcp_pubsub',
      'messaging.operation.type': 'send',
      'messaging.operation.name': 'publish',
      'triplock.txn_id': row.subject,
      'triplock.event_id': row.id,
    },
  });
  return { row: { ...row, traceparent: span.carried(row.traceparent) }, span };
}

/** Ends the spans with what came of each event. */
async function endPublished(
  followed: readonly FollowedEvent[],
  outcomes: readonly PublishOutcome[],
): Promise<void> {
  if (!isTracing()) return;
  await Promise.all(followed.map(({ span }, n) => span.run(async () => outcomes[n])));
}
