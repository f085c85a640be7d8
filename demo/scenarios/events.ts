import { bucketCount } from '@triplock/contracts';
import { count } from '@triplock/command';
import { bucketOf, deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  untilDelivered,
  untilDropped,
  type PaymentSeen,
} from '../effects.ts';
import { bringBack, killAt, pauseDuring } from '../faults.ts';
import { newOrder, sendFirst, type Accepted, type Order } from '../orders.ts';
import { newKey } from '../partner.ts';
import { fired, until } from '../promises.ts';
import {
  dropSnapshot,
  publish,
  seekBack,
  takeSnapshot,
  type Message,
  type SnapshotOf,
} from '../brokers.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { watchCounter } from '../services.ts';
import type { System } from '../system.ts';

/** Cloud Pub/Sub does not deduplicate what a publisher sends twice; the receiver has to. */
export const dispatcherKilled: Scenario = {
  name: 'dispatcher-killed',
  failure: 'the dispatcher dies after publishing, before it notes that it did',
  absorbedBy: 'guard 3: both copies carry one event id, and the inbox knows it',
  run: killDispatcher,
};

const afterPublishing = { service: 'outbox-dispatcher', point: 'dispatcher.published' } as const;

async function killDispatcher(system: System): Promise<Observation> {
  const duplicates = await watchCounter(system, 'partner-notifier', {
    name: 'triplock_notifier_events_total',
    labels: { outcome: 'duplicate' },
  });
  const order = newOrder(system, 'dispatcher-killed');
  let accepted: Accepted | undefined;
  const died = await killAt(system, afterPublishing, async () => {
    accepted = await sendFirst(system, order);
  });
  const { id } = accepted!;
  system.report(`${died.name} (pid ${died.pid}) killed itself right after publishing`);

  const first = await untilSeen(system, id, 1);
  const { copies, state } = first.events[0]!;
  system.report(`${count(copies, 'copy is', 'copies are')} out, the outbox row says ${state}`);

  const back = await bringBack(system, died);
  system.report(`${back.name} is back (pid ${back.pid}) and publishes the same event id again`);
  await untilSeen(system, id, 2);
  await untilDelivered(system, id);
  const dropped = await untilDropped(system, { ids: [id], copies: 1, duplicates });
  const seen = await lookAtPayment(system, id);
  return {
    ids: [id],
    guards: {
      claims: 'not asked again: the partner has its 202',
      ledger: `not asked again: ${describeLedger(seen)}`,
      inbox: `${describeInbox(seen)}; ${count(dropped, 'duplicate')} dropped`,
      webhook: describeWebhook(seen),
    },
  };
}

/** Waits until the auditor's own subscription has seen so many copies of the payment's event. */
function untilSeen(system: System, id: string, copies: number): Promise<PaymentSeen> {
  return until({
    what: `${count(copies, 'copy', 'copies')} of the event of ${id} on Pub/Sub`,
    signal: system.signal,
    check: async () => {
      system.progress(`waiting for ${count(copies, 'published copy', 'published copies')}`);
      const seen = await lookAtPayment(system, id);
      return (seen.events[0]?.copies ?? 0) >= copies && seen;
    },
  });
}

/** A consumer is set back, as after a bad deployment, and Pub/Sub delivers what it had taken. */
export const downstreamReplayed: Scenario = {
  name: 'downstream-replayed',
  failure: 'a subscription is sought back, and Pub/Sub delivers everything again',
  absorbedBy: 'guard 3: the inbox knows every event by its id',
  run: async (system) => {
    const snapshot = newKey('downstream-replayed');
    const replayed = { subscription: system.names.subscriptions['partner-notifier'], snapshot };
    // To a snapshot and not to a time, which Cloud Pub/Sub can do and the emulator cannot.
    await takeSnapshot(system, replayed);
    system.report(`a snapshot of the subscription ${replayed.subscription} is taken`);
    try {
      return await replay(system, replayed);
    } finally {
      await dropSnapshot(system, snapshot);
    }
  },
};

const replayedCount = 3;

async function replay(system: System, replayed: SnapshotOf): Promise<Observation> {
  const ids: string[] = [];
  while (ids.length < replayedCount) {
    ids.push((await sendFirst(system, newOrder(system, 'downstream-replayed'))).id);
  }
  for (const id of ids) await untilDelivered(system, id);
  system.report(`the partner has its ${count(ids.length, 'webhook')}`);

  const duplicates = await watchCounter(system, 'partner-notifier', {
    name: 'triplock_notifier_events_total',
    labels: { outcome: 'duplicate' },
  });
  await seekBack(system, replayed);
  system.report('the subscription is sought back to the snapshot: its acknowledgements are undone');
  // Their number is the proof that they really came again.
  const dropped = await untilDropped(system, { ids, copies: ids.length, duplicates });
  const last = await lookAtPayment(system, ids.at(-1)!);
  return {
    ids,
    guards: {
      claims: 'not asked: no partner sent anything',
      ledger: `not asked: nothing of it changed; of the last payment ${describeLedger(last)}`,
      inbox: `${count(dropped, 'duplicate')} dropped; of the last payment ${describeInbox(last)}`,
      webhook: `none came again: ${describeWebhook(last)}`,
    },
  };
}

/** The broker's order is a help and no promise to lean on: each consumer keeps its own. */
export const redeliveredOutOfOrder: Scenario = {
  name: 'redelivered-out-of-order',
  failure: 'events come in the wrong order, then late, then once more',
  absorbedBy: 'guard 3: the inbox admits each event once, whenever it comes',
  run: redeliver,
};

const paymentCount = 4;

async function redeliver(system: System): Promise<Observation> {
  const duplicates = await watchCounter(system, 'partner-notifier', {
    name: 'triplock_notifier_events_total',
    labels: { outcome: 'duplicate' },
  });
  const events = await pauseDuring(system, 'outbox-dispatcher', () => deliverBackwards(system));
  const ids = events.map(({ txnId }) => txnId);
  system.report('the dispatchers go on and publish the originals: late copies by now');
  for (const id of ids) await untilDelivered(system, id);
  await untilDropped(system, { ids, copies: ids.length, duplicates });

  for (const event of events.toReversed()) await publish(system, event);
  system.report('all of them are published once more, backwards and under no ordering key');
  const dropped = await untilDropped(system, { ids, copies: 2 * ids.length, duplicates });
  const last = await lookAtPayment(system, ids.at(-1)!);
  return {
    ids,
    guards: {
      claims: 'not asked: the partner has its 202s',
      ledger: `not asked: of the last payment ${describeLedger(last)}`,
      inbox: `${count(dropped, 'duplicate')} dropped; of the last payment ${describeInbox(last)}`,
      webhook: `one for each payment: of the last ${describeWebhook(last)}`,
    },
  };
}

/**
 * Pays while no dispatcher publishes, and publishes the events by hand, the newest first, as
 * another owner of the lease might. Gives them in the order in which they were made.
 */
async function deliverBackwards(system: System): Promise<EventMessage[]> {
  system.report('the dispatchers stand still (SIGSTOP)');
  const { bucket, orders } = ordersOfOneBucket(system);
  const ids: string[] = [];
  for (const order of orders) ids.push((await sendFirst(system, order)).id);
  const events = await eventMessagesOf(system, ids);
  system.report(`${count(events.length, 'event')} wait in bucket ${bucket}, one ordering key`);
  for (const event of events.toReversed()) {
    await publish(system, { ...event, orderingKey: event.txnId });
    await until({
      what: 'the inbox to have the event',
      signal: system.signal,
      check: async () => (await receivedOf(system, [event.txnId])).length === 1,
    });
  }
  const made = events.map(({ txnId }) => txnId);
  const received = await receivedOf(system, ids);
  fired('the inbox got them in order', received.join() === made.toReversed().join());
  system.report(
    'they are published by hand, each under a key of its own; the inbox has the newest first',
  );
  return events;
}

/** Orders whose events would all have one ordering key, so that Pub/Sub would keep their order. */
function ordersOfOneBucket(system: System): { bucket: number; orders: Order[] } {
  const first = newOrder(system, 'redelivered-out-of-order');
  const bucket = bucketOfOrder(first);
  const orders = [first];
  while (orders.length < paymentCount) {
    const order = { ...first, key: newKey('redelivered-out-of-order') };
    if (bucketOfOrder(order) === bucket) orders.push(order);
  }
  return { bucket, orders };
}

function bucketOfOrder({ partner, key }: Order): number {
  return bucketOf(
    deriveTxnId('payment', partner.id as PartnerId, key as IdempotencyKey),
    bucketCount,
  );
}

/** Payments whose event the inbox has, in the order in which it let them in. */
async function receivedOf({ database }: System, ids: readonly string[]): Promise<string[]> {
  const sql = `
    SELECT ordering_key AS id FROM notifier.inbox
    WHERE ordering_key = ANY ($1::uuid[]) ORDER BY received_at`;
  const rows = await database.query<{ id: string }>(sql, [ids]);
  return rows.map((row) => row.id);
}

/** An event of the outbox, as a dispatcher publishes it, without its ordering key. */
type EventMessage = Message & { txnId: string };

type OutboxRow = {
  event_id: string;
  event_type: string;
  txn_id: string;
  payment_id: string;
  sequence: number | null;
  payload: string;
  traceparent: string;
};

const eventsSql = `
  SELECT event_id, event_type, txn_id, payment_id, sequence, payload, traceparent
  FROM ledger.outbox WHERE txn_id = ANY ($1::uuid[]) ORDER BY order_id`;

/** The payments' events, one each, in the order in which they were made. Waits for the workers. */
async function eventMessagesOf(system: System, txnIds: readonly string[]): Promise<EventMessage[]> {
  const rows = await until({
    what: 'the events of the payments in the outbox',
    signal: system.signal,
    check: async () => {
      const found = await system.ledger.query<OutboxRow>(eventsSql, [txnIds]);
      return found.length >= txnIds.length && found;
    },
  });
  return rows.map(({ payload, ...row }) => {
    const given = Object.entries(row).filter(([, value]) => value !== null);
    const attributes = Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
    return { txnId: row.txn_id, data: payload, attributes };
  });
}
