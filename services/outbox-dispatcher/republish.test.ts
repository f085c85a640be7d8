import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { aPayment, eventually } from '@triplock/testing';
import { openSubscriber, type IncomingMessage } from '@triplock/transport';
import { aDispatcherSetup } from './test/dispatcher.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('a consumer that is added later gets every event by republishing, byte for byte', async (context) => {
  const { store, events: pubsub, post, dispatcher } = await aDispatcherSetup(context);
  const database = store.open('triplock_ledger');
  const { pass: publishAll, outbox } = dispatcher();
  await post(...Array.from({ length: 40 }, () => aPayment()));
  assert.equal(await publishAll(), 40);
  assert.equal(await publishAll(), 0);

  const late = `${pubsub.topic}-late`;
  await pubsub.client.topic(pubsub.topic).createSubscription(late, { enableMessageOrdering: true });
  const seen = new Map<string, string>();
  const handle = async ({ attributes, data }: IncomingMessage) => {
    seen.set(attributes['event_id']!, data.toString());
    return 'ack' as const;
  };
  const subscription = { ...pubsub, subscription: late, maxInFlight: 100 };
  const subscriber = openSubscriber({ ...subscription, logger, handle });
  context.after(() => subscriber.close());

  const [{ now }] = (await database.query<{ now: Date }>(
    `SELECT now() + interval '1 millisecond' AS now`,
  )) as [{ now: Date }];
  const range = { since: new Date(0), until: now, rowsMax: 15 };
  const batches = [];
  for (let rows = -1; rows !== 0; batches.push(rows)) {
    rows = await outbox.republish(range);
    assert.equal(await publishAll(), rows);
  }
  assert.deepEqual(batches, [15, 15, 10, 0]);
  await eventually(async () => seen.size === 40, { withinMs: 30_000, what: 'every event' });
  await pubsub.client.subscription(late).delete();
  const rows = await database.query<{ event_id: string; payload: string }>(
    'SELECT event_id, payload FROM ledger.outbox',
  );
  assert.deepEqual([...seen].sort(), rows.map(({ event_id: id, payload }) => [id, payload]).sort());
});
