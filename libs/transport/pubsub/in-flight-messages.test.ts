import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import {
  openInFlightMessages,
  type IncomingMessage,
  type MessageOutcome,
} from './in-flight-messages.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** Messages whose outcome the test decides, and what the broker gets. */
function messagesInFlight(t: TestContext, { maxInFlight }: { maxInFlight: number }) {
  const given: string[] = [];
  const outcomes = new Map<string, PromiseWithResolvers<MessageOutcome>>();
  const sent = { acked: [] as string[], nacked: [] as string[] };
  const messages = openInFlightMessages({
    maxInFlight,
    logger,
    handle: ({ id }: IncomingMessage) => {
      given.push(id);
      const outcome = Promise.withResolvers<MessageOutcome>();
      outcomes.set(id, outcome);
      return outcome.promise;
    },
    acknowledge: async (ids) => void sent.acked.push(...ids),
    setDeadline: async (ids, seconds) => void (seconds === 0 && sent.nacked.push(...ids)),
    onLeft: () => undefined,
  });
  t.after(() => messages.close());
  return {
    messages,
    given,
    sent,
    receive: (orderingKey: string, ...ids: string[]) =>
      messages.receive(
        ids.map((id) => ({
          ackId: id,
          message: { messageId: id, data: Buffer.from(id), orderingKey },
        })),
      ),
    /** Gives messages their outcome, and lets what follows from it happen. */
    decide: async (outcome: MessageOutcome, ...ids: string[]) => {
      for (const id of ids) outcomes.get(id)!.resolve(outcome);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('what waits of one key is handed over together, and what comes later after all outcomes', async (t) => {
  const { given, receive, decide } = messagesInFlight(t, { maxInFlight: 100 });
  receive('k', '1');
  receive('k', '2', '3');
  receive('other', 'a');
  receive('k', '4');
  assert.deepEqual(given, ['1', 'a']);
  await decide('ack', '1');
  assert.deepEqual(given, ['1', 'a', '2', '3', '4']);
  receive('k', '5');
  await decide('ack', '2', '4');
  assert.equal(given.length, 5, 'it came while 3 was at work');
  await decide('nack', '3');
  assert.deepEqual(given, ['1', 'a', '2', '3', '4', '5']);
  await decide('ack', 'a', '5');
});

test('each message of those handed over together has a outcome of its own', async (t) => {
  const { messages, sent, receive, decide } = messagesInFlight(t, { maxInFlight: 100 });
  receive('k', '1', '2', '3');
  await decide('nack', '2');
  await decide('ack', '1', '3');
  await messages.close();
  assert.deepEqual(sent, { acked: ['1', '3'], nacked: ['2'] });
});

test('no more are at work than allowed, whether of one key or of many or of none', async (t) => {
  const { messages, given, receive, decide } = messagesInFlight(t, { maxInFlight: 3 });
  receive('k', '1', '2', '3', '4', '5');
  receive('', 'a', 'b');
  assert.deepEqual(given, ['1', '2', '3']);
  await decide('ack', '1', '3');
  assert.deepEqual(given, ['1', '2', '3', 'a', 'b']);
  await decide('ack', '2', 'a', 'b');
  assert.deepEqual(given.slice(5), ['4', '5']);
  await decide('ack', '4', '5');
  assert.equal(messages.held(), 0);
});

test('closing lets what was handed over finish and gives back what waits', async (t) => {
  const { messages, given, sent, receive, decide } = messagesInFlight(t, { maxInFlight: 100 });
  receive('k', '1', '2');
  receive('k', '3', '4');
  const closed = messages.close();
  await decide('ack', '1', '2');
  await closed;
  assert.deepEqual(given, ['1', '2']);
  assert.deepEqual(sent, { acked: ['1', '2'], nacked: ['3', '4'] });
});

test('however many messages are held, their deadlines are extended in requests of bounded size', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const extended: string[][] = [];
  const messages = openInFlightMessages({
    maxInFlight: 10_000,
    logger,
    handle: () => new Promise(() => undefined),
    acknowledge: async () => undefined,
    setDeadline: async (ids, seconds) => void (seconds > 0 && extended.push(ids)),
    onLeft: () => undefined,
  });
  const ids = Array.from({ length: 2_500 }, (_, at) => `message-${at}`);
  messages.receive(
    ids.map((id) => ({
      ackId: id,
      message: { messageId: id, data: Buffer.alloc(0), orderingKey: '' },
    })),
  );
  t.mock.timers.tick(4_000);
  for (const _ of ids.slice(0, 10)) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(10);
  }
  assert.equal(extended.length, 3);
  assert.ok(extended.every((request) => request.length <= 1_000));
  assert.deepEqual(new Set(extended.flat()), new Set(ids));
});
