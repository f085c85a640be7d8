import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { eventually } from '@triplock/testing';
import { openBadNetwork } from '../test/bad-network.ts';
import { aSubscription } from '../test/subscription.ts';

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
