import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aPayment, succeeded } from '@triplock/testing';
import { gatherEvents } from './gather-events.ts';
import type { ReceivedEvent, ReceiveOutcome } from './inbox.ts';

const apartMs = 25;
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** A gatherer on a clock of the test's, and its batches, which the test ends. */
function aGatherer(t: TestContext, eventsMax: number) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const batches: ReceivedEvent[][] = [];
  let underWay = Promise.withResolvers<ReceiveOutcome[]>();
  const receive = gatherEvents(
    (received) => {
      batches.push([...received]);
      underWay = Promise.withResolvers();
      return underWay.promise;
    },
    { apartMs, eventsMax },
  );
  const settle = async () => {
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
  };
  return {
    receive: (count: number) =>
      Array.from({ length: count }, () =>
        receive({ event: succeeded(aPayment()), payloadHash: 'hash' }),
      ),
    sizes: async () => {
      await settle();
      return batches.map(({ length }) => length);
    },
    end: () => underWay.resolve(batches.at(-1)!.map(() => ({ outcome: 'applied' }))),
    fail: (error: Error) => underWay.reject(error),
    pass: (ms: number) => t.mock.timers.tick(ms),
  };
}

test('after a calm a batch begins without a wait, and what comes meanwhile is the next', async (t) => {
  const { receive, sizes, end, pass } = aGatherer(t, 4);
  const first = receive(2);
  assert.deepEqual(await sizes(), [2]);
  void receive(3);
  void receive(3);
  pass(apartMs);
  assert.deepEqual(await sizes(), [2], 'one at a time');
  end();
  assert.deepEqual(await sizes(), [2, 4]);
  assert.deepEqual(await Promise.all(first), [{ outcome: 'applied' }, { outcome: 'applied' }]);
  pass(apartMs);
  end();
  assert.deepEqual(await sizes(), [2, 4, 2]);
  pass(apartMs);
  end();
  assert.deepEqual(await sizes(), [2, 4, 2]);
  void receive(1);
  assert.deepEqual(await sizes(), [2, 4, 2, 1]);
});

test('a batch that was quick is followed by the next one only some milliseconds after its begin', async (t) => {
  const { receive, sizes, end, pass } = aGatherer(t, 100);
  void receive(1);
  assert.deepEqual(await sizes(), [1]);
  end();
  void receive(1);
  pass(apartMs - 1);
  void receive(1);
  assert.deepEqual(await sizes(), [1]);
  pass(1);
  assert.deepEqual(await sizes(), [1, 2]);
});

test('a batch that fails is told to each of its events, and to no other', async (t) => {
  const { receive, sizes, end, fail, pass } = aGatherer(t, 100);
  const failed = receive(2);
  await sizes();
  const others = receive(1);
  pass(apartMs);
  fail(new Error('the database is away'));
  for (const each of failed) await assert.rejects(each, /away/);
  assert.deepEqual(await sizes(), [2, 1]);
  end();
  assert.deepEqual(await Promise.all(others), [{ outcome: 'applied' }]);
});
