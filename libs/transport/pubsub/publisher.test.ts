import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTestSubscription, eventually } from '@triplock/testing';
import { openBadNetwork, type Wire } from '../test/bad-network.ts';
import { keepClient } from './client.ts';
import { openPublisher, type OutgoingMessage } from './publisher.ts';

/** A topic behind a network, its publisher, and everything that its subscription received. */
async function aTopic(t: TestContext, { publishLimitMs = 1_000, replyMs = 0 } = {}) {
  const connection = await createTestSubscription(t);
  const network = await openBadNetwork(connection.emulatorHost, replyAfter(replyMs));
  const emulatorHost = network.address;
  const publisher = openPublisher({ ...connection, emulatorHost, publishLimitMs });
  const received: { data: string; key: string; attributes: Record<string, string> }[] = [];
  const subscription = connection.client.subscription(connection.subscription);
  subscription.on('message', (message) => {
    const { data, orderingKey, attributes } = message;
    received.push({ data: data.toString(), key: orderingKey ?? '', attributes });
    message.ack();
  });
  subscription.on('error', () => undefined); // The topic is deleted before this reader closes.
  t.after(async () => {
    await subscription.close();
    await publisher.close();
    await network.close();
  });
  const receivedOf = (key: string) =>
    received.filter((message) => message.key === key).map(({ data }) => data);
  return { network, publisher, received, receivedOf };
}

/** A broker far away: its answers arrive so much later, in order. */
function replyAfter(replyMs: number) {
  return ({ client, broker }: Wire) => {
    client.on('data', (chunk) => broker.write(chunk));
    broker.on('data', (chunk) => void setTimeout(() => client.write(chunk), replyMs));
  };
}

const aMessage = (orderingKey: string, data: string): OutgoingMessage => ({
  orderingKey,
  data: Buffer.from(data),
  attributes: { event_id: data },
});
const numbered = (key: string, count: number) =>
  Array.from({ length: count }, (_, at) => aMessage(key, `${key}/${at}`));
const neverTaken = (orderingKey: string): OutgoingMessage => ({
  orderingKey,
  data: Buffer.alloc(0),
  // Neither data nor attributes, which Pub/Sub refuses; our types refuse it too.
  attributes: {} as { event_id: string },
});
const outcomesOf = (outcomes: readonly { outcome: string }[]) =>
  outcomes.map(({ outcome }) => outcome);

test('messages of one key are delivered in the order in which they were published', async (t) => {
  const { publisher, received, receivedOf } = await aTopic(t, { publishLimitMs: 30_000 });
  const keys = ['bucket-1', 'bucket-2'];
  const outcomes = await Promise.all(
    keys.map((key) => publisher.publishInOrder(numbered(key, 1_200))),
  );
  assert.ok(outcomes.flat().every(({ outcome }) => outcome === 'published'));
  await eventually(async () => received.length >= 2_400);
  for (const key of keys) {
    assert.deepEqual(
      receivedOf(key),
      numbered(key, 1_200).map(({ data }) => data.toString()),
    );
  }
  assert.deepEqual({ ...received[0]?.attributes }, { event_id: received[0]?.data });
});

test('a message that is never taken is named; those before it are published, those after it are not', async (t) => {
  const { publisher, receivedOf } = await aTopic(t);
  const messages = numbered('k', 9);
  messages[5] = neverTaken('k');
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(messages)), [
    ...Array.from({ length: 5 }, () => 'published'),
    'unpublishable',
    ...Array.from({ length: 3 }, () => 'unknown'),
  ]);
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(messages.slice(6))), [
    'published',
    'published',
    'published',
  ]);
  await eventually(async () => receivedOf('k').length === 8);
  assert.deepEqual(
    receivedOf('k'),
    [0, 1, 2, 3, 4, 6, 7, 8].map((at) => `k/${at}`),
  );
});

test('a hung broker makes the outcome unknown in time, and the key is open for the next call', async (t) => {
  const { network, publisher, receivedOf } = await aTopic(t);
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(numbered('k', 1))), ['published']);
  network.freeze();
  const start = performance.now();
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(numbered('k', 2))), [
    'unknown',
    'unknown',
  ]);
  assert.ok(performance.now() - start < 3_000);
  network.thaw();
  await eventually(async () => {
    const [last] = await publisher.publishInOrder([aMessage('k', 'after')]);
    return last?.outcome === 'published';
  });
  await eventually(async () => receivedOf('k').includes('after'));
});

test('all requests of a call share its time, and what was not acknowledged by then goes on in order', async (t) => {
  const publishLimitMs = 1_500;
  const { publisher, receivedOf } = await aTopic(t, { publishLimitMs, replyMs: 200 });
  const messages = numbered('k', 64);
  // Finding it among the others takes some 13 requests, one after the other.
  messages[40] = neverTaken('k');
  let next = 0;
  for (let calls = 0; next < messages.length; calls += 1) {
    assert.ok(calls < 20, `only ${next} after ${calls} calls`);
    const start = performance.now();
    const outcomes = outcomesOf(await publisher.publishInOrder(messages.slice(next)));
    const tookMs = performance.now() - start;
    assert.ok(tookMs < publishLimitMs + 300, `a call took ${tookMs} ms`);
    const published = outcomes.findIndex((outcome) => outcome !== 'published');
    next += published === -1 ? outcomes.length : published;
    if (outcomes[published] === 'unpublishable') next += 1;
  }
  const taken = messages.filter((message) => message.data.length > 0);
  await eventually(async () => new Set(receivedOf('k')).size === taken.length);
  // A publish whose ack was late is sent again: copies come, but never a later message first.
  const firstSeen = [...new Set(receivedOf('k'))];
  assert.deepEqual(
    firstSeen,
    taken.map(({ data }) => data.toString()),
  );
});

test('a broker that is away makes the outcome unknown, and it is found again when it is back', async (t) => {
  const { network, publisher } = await aTopic(t);
  network.cut();
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(numbered('k', 1))), ['unknown']);
  await assert.rejects(publisher.ping());
  network.mend();
  await eventually(() => publisher.ping().then(() => true));
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(numbered('k', 1))), ['published']);
});

test('a topic that does not exist is unknown and not unpublishable', async (t) => {
  const connection = await createTestSubscription(t);
  const publisher = openPublisher({ ...connection, topic: 'no-such-topic' });
  t.after(() => publisher.close());
  assert.deepEqual(outcomesOf(await publisher.publishInOrder(numbered('k', 2))), [
    'unknown',
    'unknown',
  ]);
  await assert.rejects(publisher.ping());
});

test('a topic that no message could go to leaves every message to be published later', async (t) => {
  const connection = await createTestSubscription(t);
  const publisher = openPublisher({ ...connection, topic: '1 is no name' });
  t.after(() => publisher.close());
  const outcomes = await publisher.publishInOrder(numbered('k', 3));
  assert.deepEqual(outcomesOf(outcomes), ['unknown', 'unknown', 'unknown']);
});

/** A maker that fails so often at first, as one without credentials does. */
function failingMaker(failures: number) {
  const made: { closed: boolean }[] = [];
  let left = failures;
  const make = async () => {
    if (left > 0) {
      left -= 1;
      throw new Error('no credentials yet');
    }
    const client = { closed: false };
    made.push(client);
    return { client, close: async () => void (client.closed = true) };
  };
  return { make, made };
}

test('one client is made and kept until it is forgotten', async () => {
  const { make, made } = failingMaker(0);
  const kept = keepClient(make);
  const first = await kept.get();
  assert.equal(await kept.get(), first);
  await kept.forget(first);
  assert.notEqual(await kept.get(), first);
  await kept.forget(first);
  await kept.get();
  assert.deepEqual(made, [{ closed: true }, { closed: false }]);
  await kept.close();
  assert.deepEqual(made, [{ closed: true }, { closed: true }]);
});

test('who asks while a client is being forgotten gets another one', async () => {
  const kept = keepClient(failingMaker(0).make);
  const first = await kept.get();
  const forgotten = kept.forget(first);
  const next = kept.get();
  await forgotten;
  assert.notEqual(await next, first);
  await kept.close();
});

test('a client that could not be made is an error once, and the next one is made', async () => {
  const { make } = failingMaker(1);
  const kept = keepClient(make);
  await Promise.all([assert.rejects(kept.get()), assert.rejects(kept.get())]);
  await kept.get();
  const away = keepClient(failingMaker(1).make);
  await assert.rejects(away.get());
  await away.close();
});
