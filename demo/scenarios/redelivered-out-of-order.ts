import { bucketCount } from '@triplock/contracts';
import { bucketOf, deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { count } from '@triplock/operator';
import { fired } from '../broken-promise.ts';
import { watchCounter } from '../counters.ts';
import { pauseDuring } from '../faults.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { newKey } from '../partner.ts';
import { publish } from '../pubsub.ts';
import { lookAt, untilDropped, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';
import { eventMessagesOf, type EventMessage } from './event-messages.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newOrder, sendFirst, type Order } from './send.ts';

/** The broker's order is a help and no promise to lean on: each consumer keeps its own. */
export const redeliveredOutOfOrder: Scenario = {
  name: 'redelivered-out-of-order',
  failure: 'events come in the wrong order, then late, then once more',
  absorbedBy: 'guard 3: the inbox lets each event in once, whenever it comes',
  run,
};

const paymentCount = 4;

async function run(system: System): Promise<Observation> {
  const duplicates = await watchCounter(system, 'partner-notifier', {
    name: 'triplock_notifier_events_total',
    labels: { outcome: 'duplicate' },
  });
  const events = await pauseDuring(system, 'outbox-dispatcher', () => deliverBackwards(system));
  const ids = events.map(({ txnId }) => txnId);
  system.tell('the dispatchers go on and publish the originals: late copies by now');
  for (const id of ids) await untilTold(system, id);
  await untilDropped(system, { ids, copies: ids.length, duplicates });

  for (const event of events.toReversed()) await publish(system, event);
  system.tell('all of them are published once more, backwards and under no ordering key');
  const dropped = await untilDropped(system, { ids, copies: 2 * ids.length, duplicates });
  const last = await lookAt(system, ids.at(-1)!);
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
  system.tell('the dispatchers stand still (SIGSTOP)');
  const { bucket, orders } = ordersOfOneBucket(system);
  const ids: string[] = [];
  for (const order of orders) ids.push((await sendFirst(system, order)).id);
  const events = await eventMessagesOf(system, ids);
  system.tell(`${count(events.length, 'event')} wait in bucket ${bucket}, one ordering key`);
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
  system.tell(
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
