import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { openMessageDesk } from './message-desk.ts';
import type { IncomingMessage, MessageVerdict } from './topic.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A desk whose messages are judged by the test, and what the broker is told. */
function aDesk(t: TestContext, { maxInFlight }: { maxInFlight: number }) {
  const given: string[] = [];
  const judgements = new Map<string, PromiseWithResolvers<MessageVerdict>>();
  const told = { acked: [] as string[], nacked: [] as string[] };
  const desk = openMessageDesk({
    maxInFlight,
    logger,
    handle: ({ id }: IncomingMessage) => {
      given.push(id);
      const judgement = Promise.withResolvers<MessageVerdict>();
      judgements.set(id, judgement);
      return judgement.promise;
    },
    acknowledge: async (ids) => void told.acked.push(...ids),
    setDeadline: async (ids, seconds) => void (seconds === 0 && told.nacked.push(...ids)),
    onLeft: () => undefined,
  });
  t.after(() => desk.close());
  return {
    desk,
    given,
    told,
    receive: (orderingKey: string, ...ids: string[]) =>
      desk.receive(
        ids.map((id) => ({
          ackId: id,
          message: { messageId: id, data: Buffer.from(id), orderingKey },
        })),
      ),
    /** Gives the verdict on messages, and lets the desk do what follows from it. */
    judge: async (verdict: MessageVerdict, ...ids: string[]) => {
      for (const id of ids) judgements.get(id)!.resolve(verdict);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('what waits of one key is handed over together, and what comes later after all verdicts', async (t) => {
  const { given, receive, judge } = aDesk(t, { maxInFlight: 100 });
  receive('k', '1');
  receive('k', '2', '3');
  receive('other', 'a');
  receive('k', '4');
  assert.deepEqual(given, ['1', 'a']);
  await judge('ack', '1');
  assert.deepEqual(given, ['1', 'a', '2', '3', '4']);
  receive('k', '5');
  await judge('ack', '2', '4');
  assert.equal(given.length, 5, 'it came while 3 was at work');
  await judge('nack', '3');
  assert.deepEqual(given, ['1', 'a', '2', '3', '4', '5']);
  await judge('ack', 'a', '5');
});

test('each message of those handed over together has a verdict of its own', async (t) => {
  const { desk, told, receive, judge } = aDesk(t, { maxInFlight: 100 });
  receive('k', '1', '2', '3');
  await judge('nack', '2');
  await judge('ack', '1', '3');
  await desk.close();
  assert.deepEqual(told, { acked: ['1', '3'], nacked: ['2'] });
});

test('no more are at work than told, whether of one key or of many or of none', async (t) => {
  const { desk, given, receive, judge } = aDesk(t, { maxInFlight: 3 });
  receive('k', '1', '2', '3', '4', '5');
  receive('', 'a', 'b');
  assert.deepEqual(given, ['1', '2', '3']);
  await judge('ack', '1', '3');
  assert.deepEqual(given, ['1', '2', '3', 'a', 'b']);
  await judge('ack', '2', 'a', 'b');
  assert.deepEqual(given.slice(5), ['4', '5']);
  await judge('ack', '4', '5');
  assert.equal(desk.held(), 0);
});

test('closing lets what was handed over finish and gives back what waits', async (t) => {
  const { desk, given, told, receive, judge } = aDesk(t, { maxInFlight: 100 });
  receive('k', '1', '2');
  receive('k', '3', '4');
  const closed = desk.close();
  await judge('ack', '1', '2');
  await closed;
  assert.deepEqual(given, ['1', '2']);
  assert.deepEqual(told, { acked: ['1', '2'], nacked: ['3', '4'] });
});

test('however many messages are held, their deadlines are extended in requests of bounded size', (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const extended: string[][] = [];
  const desk = openMessageDesk({
    maxInFlight: 10_000,
    logger,
    handle: () => new Promise(() => undefined),
    acknowledge: async () => undefined,
    setDeadline: async (ids, seconds) => void (seconds > 0 && extended.push(ids)),
    onLeft: () => undefined,
  });
  const ids = Array.from({ length: 2_500 }, (_, at) => `message-${at}`);
  desk.receive(
    ids.map((id) => ({
      ackId: id,
      message: { messageId: id, data: Buffer.alloc(0), orderingKey: '' },
    })),
  );
  t.mock.timers.tick(15_000);
  assert.ok(extended.length >= 3);
  assert.ok(extended.every((request) => request.length <= 1_000));
  assert.deepEqual(new Set(extended.flat()), new Set(ids));
});
