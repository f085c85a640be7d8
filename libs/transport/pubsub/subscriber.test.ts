import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestSubscription, eventually } from '@triplock/testing';
import type { IncomingMessage } from './in-flight-messages.ts';
import { openPublisher } from './publisher.ts';
import {
  openSubscriber,
  readSubscriptionRetention,
  skipBacklog,
  type SubscriberOptions,
} from './subscriber.ts';
import { openBadNetwork } from '../test/bad-network.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A topic, its subscription, and what its subscribers saw. */
async function aSubscription(t: TestContext) {
  const connection = await createTestSubscription(t);
  const publisher = openPublisher(connection);
  t.after(() => publisher.close());
  const publish = async (key: string, ...texts: string[]) => {
    const messages = texts.map((text) => ({
      orderingKey: key,
      data: Buffer.from(text),
      attributes: { event_id: text },
    }));
    for (const { outcome } of await publisher.publishInOrder(messages)) {
      assert.equal(outcome, 'published');
    }
  };
  const seen: string[] = [];
  const subscribe = (wish: Partial<SubscriberOptions> = {}) => {
    const handle = async (message: IncomingMessage) => {
      seen.push(message.data.toString());
      return 'ack' as const;
    };
    const subscriber = openSubscriber({ ...connection, maxInFlight: 100, logger, handle, ...wish });
    t.after(() => subscriber.close());
    return subscriber;
  };
  return { connection, publish, seen, subscribe };
}

test('a message arrives with its data, attributes and key, and an acked one never comes again', async (t) => {
  const { publish, seen, subscribe } = await aSubscription(t);
  const received: IncomingMessage[] = [];
  const first = subscribe({
    handle: async (message) => {
      received.push(message);
      return 'ack';
    },
  });
  await publish('bucket-3', 'one');
  await eventually(async () => received.length === 1);
  await first.close();
  const [message] = received;
  assert.equal(message?.data.toString(), 'one');
  assert.deepEqual({ ...message?.attributes }, { event_id: 'one' });
  assert.equal(message?.orderingKey, 'bucket-3');
  assert.ok(message?.publishTime instanceof Date);
  subscribe();
  await publish('bucket-3', 'two');
  await eventually(async () => seen.length > 0);
  assert.deepEqual(seen, ['two']);
});

test('a nacked message and one whose handler fails come again', async (t) => {
  const { publish, subscribe } = await aSubscription(t);
  const tries: Record<string, number> = { nacked: 0, failed: 0 };
  subscribe({
    handle: async ({ data }) => {
      const text = data.toString();
      tries[text] = (tries[text] ?? 0) + 1;
      if (tries[text] >= 3) return 'ack';
      if (text === 'failed') throw new Error('the database is away');
      return 'nack';
    },
  });
  await publish('a', 'nacked');
  await publish('b', 'failed');
  await eventually(async () => tries['nacked'] === 3 && tries['failed'] === 3);
});

test('messages of one key are handed over in their order, those of several keys side by side', async (t) => {
  const { publish, subscribe } = await aSubscription(t);
  const running = new Set<string>();
  const order: string[] = [];
  const bothKeys = Promise.withResolvers<void>();
  subscribe({
    handle: async ({ orderingKey, data }) => {
      order.push(data.toString());
      running.add(orderingKey);
      if (running.size === 2) bothKeys.resolve();
      await bothKeys.promise;
      return 'ack';
    },
  });
  await Promise.all([publish('a', 'a1', 'a2', 'a3'), publish('b', 'b1', 'b2', 'b3')]);
  await eventually(async () => order.length >= 6);
  assert.deepEqual(
    order.filter((text) => text.startsWith('a')),
    ['a1', 'a2', 'a3'],
  );
  assert.deepEqual(
    order.filter((text) => text.startsWith('b')),
    ['b1', 'b2', 'b3'],
  );
});

test('no more messages are held than allowed', async (t) => {
  const { publish, seen, subscribe } = await aSubscription(t);
  let held = 0;
  let most = 0;
  subscribe({
    maxInFlight: 3,
    handle: async ({ data }) => {
      held += 1;
      most = Math.max(most, held);
      await new Promise((resolve) => setImmediate(resolve));
      held -= 1;
      seen.push(data.toString());
      return 'ack';
    },
  });
  const keys = Array.from({ length: 30 }, (_, at) => `key-${at}`);
  await Promise.all(keys.map((key) => publish(key, key)));
  await eventually(async () => new Set(seen).size === 30);
  assert.ok(most <= 3, `${most} were held`);
});

test('closing lets the message under way finish and gives the waiting ones back', async (t) => {
  const { publish, seen, subscribe } = await aSubscription(t);
  const underWay = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const handled: string[] = [];
  const first = subscribe({
    handle: async ({ data }) => {
      underWay.resolve();
      await finish.promise;
      handled.push(data.toString());
      return 'ack';
    },
  });
  await publish('k', '1');
  await underWay.promise;
  await publish('k', '2', '3');
  const closed = first.close();
  finish.resolve();
  await closed;
  assert.deepEqual(handled, ['1']);
  subscribe();
  await eventually(async () => new Set(seen).size === 2);
  assert.deepEqual([...new Set(seen)].sort(), ['2', '3']);
});

test('for how long the messages of a subscription can come again is known', async (context) => {
  const subscription = await createTestSubscription(context);
  const week = { outcome: 'known', retentionMs: 7 * 86_400_000 };
  assert.deepEqual(await readSubscriptionRetention(subscription), week);
});

test('of a subscription that is missing it is known why nothing is known', async (context) => {
  const connection = await createTestSubscription(context);
  const answer = await readSubscriptionRetention({ ...connection, subscription: 'missing' });
  assert.equal(answer.outcome, 'unknown');
});

test('what was published before its backlog is skipped never arrives, and what comes after does', async (context) => {
  const { connection, publish, seen, subscribe } = await aSubscription(context);
  await publish('a', 'before 1', 'before 2');
  await publish('b', 'before 3');
  await skipBacklog(connection);
  await publish('a', 'after');
  subscribe();
  await eventually(async () => seen.length > 0);
  assert.deepEqual(seen, ['after']);
  await assert.rejects(skipBacklog({ ...connection, subscription: 'missing' }));
});

// Side by side, because each waits for a deadline to be over.
suite('a subscriber in trouble', { concurrency: true }, () => {
  test('a subscriber that starts before its subscription, or loses its broker, goes on by itself', async (t) => {
    const { connection, seen, subscribe } = await aSubscription(t);
    const network = await openBadNetwork(connection.emulatorHost);
    t.after(() => network.close());
    const name = `${connection.subscription}-late`;
    const subscriber = subscribe({ subscription: name, emulatorHost: network.address });
    await assert.rejects(subscriber.ping());
    const [late] = await connection.client.topic(connection.topic).createSubscription(name);
    await eventually(() => subscriber.ping().then(() => true));
    const publish = (text: string) =>
      connection.client.topic(connection.topic).publishMessage({ data: Buffer.from(text) });
    await publish('before');
    await eventually(async () => seen.includes('before'));

    network.cut();
    await assert.rejects(subscriber.ping());
    await publish('meanwhile');
    network.mend();
    // The emulator gives some messages to the connection that is gone; they come again after the
    // deadline of their acks, 10 s.
    await eventually(async () => seen.includes('meanwhile'), {
      withinMs: 60_000,
      what: 'redelivery',
    });
    await eventually(() => subscriber.ping().then(() => true));
    await subscriber.close();
    await late.delete();
  });

  test('ordering keys that went to a subscriber that died reach another', async (t) => {
    const { connection, publish, seen, subscribe } = await aSubscription(t);
    const network = await openBadNetwork(connection.emulatorHost);
    t.after(() => network.close());
    const died: string[] = [];
    subscribe({
      emulatorHost: network.address,
      handle: async ({ data }) => {
        died.push(data.toString());
        return 'ack';
      },
    });
    await publish('first', 'first');
    await eventually(async () => died.length === 1);
    network.cut();
    subscribe();
    const keys = Array.from({ length: 32 }, (_, at) => `key-${at}`);
    await Promise.all(keys.map((key) => publish(key, key)));
    const arrived = async () => keys.every((key) => seen.includes(key));
    await eventually(arrived, { withinMs: 60_000, what: 'every key' });
  });

  test('a handler that takes longer than the ack deadline keeps its message', async (t) => {
    const { publish, subscribe } = await aSubscription(t);
    const start = performance.now();
    let tries = 0;
    let done = false;
    subscribe({
      handle: async () => {
        tries += 1;
        await eventually(async () => performance.now() - start > 13_000);
        done = true;
        return 'ack';
      },
    });
    await publish('k', 'slow');
    await eventually(async () => done, { withinMs: 30_000, what: 'the slow handler' });
    assert.equal(tries, 1);
  });
});
