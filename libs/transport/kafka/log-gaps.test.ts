import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import {
  appendInTransaction,
  commitTestOffset,
  emptyTestTopic,
  eventually,
  recreateTestTopic,
} from '@triplock/testing';
import { aGroup, numbered, testEveryDriver } from '../test/topic.ts';
import { connectProducer } from './producer.ts';
import { findGroupGaps, gapBefore, openLogBounds, type LogGap } from './offsets.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

testEveryDriver(
  'a member that joins reports what was deleted unread, and reads what came afterwards',
  async (t) => {
    const { brokers, topic, groupId, seen, consume, append, allCommitted } = await aGroup(t, 2);
    const log = openLogBounds({ brokers, clientId: 'test', logger, driver: t.driver, topic });
    t.after(() => log.close());
    await append(...numbered(2, 0));
    const first = consume();
    await allCommitted();
    await first.close();
    await append(...numbered(3, 0), ...numbered(1, 1));
    assert.deepEqual(
      await findGroupGaps({ brokers, clientId: 'test', logger, driver: t.driver, topic, groupId }),
      [],
    );

    await emptyTestTopic({ brokers, topic });
    assert.deepEqual((await log.bounds()).get(0), { start: 5n, end: 5n });

    const lost: LogGap[] = [];
    consume({ onLost: (gap) => void lost.push(gap) });
    await append(...numbered(1, 0));
    await eventually(async () => seen.length === 3);
    assert.deepEqual(
      lost.sort((one, other) => one.partition - other.partition),
      [
        { partition: 0, from: 2n, to: 5n, why: 'dropped' },
        { partition: 1, from: 0n, to: 1n, why: 'dropped' },
      ],
    );
    // Of the second partition nothing was ever read: its loss is over once it was reported.
    await eventually(async () => {
      const left = await findGroupGaps({
        brokers,
        clientId: 'test',
        logger,
        driver: t.driver,
        topic,
        groupId,
      });
      return left.length === 0;
    });
  },
);

testEveryDriver(
  'a member reports what was deleted while its batches failed, before it goes on behind it',
  async (t) => {
    const { brokers, topic, seen, consume, append, allCommitted } = await aGroup(t, 2);
    const lost: LogGap[] = [];
    const failing = { is: false, times: 0 };
    consume({
      onLost: (gap) => void lost.push(gap),
      handle: async ({ partition, records }) => {
        if (failing.is && partition === 0) {
          failing.times += 1;
          throw new Error('the database is away');
        }
        seen.push(...records);
      },
    });
    await append(...numbered(2, 0));
    await allCommitted();
    await appendInTransaction(
      { brokers, topic },
      { message: { value: 'no', partition: 0 }, end: 'abort' },
    );
    await append(...numbered(1, 0), ...numbered(1, 1));
    await allCommitted();
    assert.deepEqual([seen.length, lost], [4, []]);

    failing.is = true;
    await append(...numbered(3, 0));
    await eventually(async () => failing.times > 0);
    await emptyTestTopic({ brokers, topic });
    failing.is = false;
    await append(...numbered(1, 0), ...numbered(1, 1));
    await allCommitted();
    assert.deepEqual(
      [seen.length, lost],
      [6, [{ partition: 0, from: 5n, to: 8n, why: 'dropped' }]],
    );
  },
);

testEveryDriver(
  'a member that keeps its partition over a rebalance still reports what was deleted unread',
  async (t) => {
    const { brokers, topic, consume, append, allCommitted } = await aGroup(t, 2);
    const lost: LogGap[] = [];
    const failing = { is: false, times: 0 };
    let own: readonly number[] = [];
    consume({
      onAssigned: (partitions) => void (own = partitions),
      onLost: (gap) => void lost.push(gap),
      handle: async () => {
        if (!failing.is) return;
        failing.times += 1;
        throw new Error('the database is away');
      },
    });
    const other = consume();
    await eventually(async () => own.length === 1);
    const [partition] = own as [number];
    await append(...numbered(2, partition));
    await allCommitted();

    failing.is = true;
    await append(...numbered(3, partition));
    await eventually(async () => failing.times > 0);
    await emptyTestTopic({ brokers, topic });
    await other.close();
    await eventually(async () => own.length === 2);
    failing.is = false;
    await append(...numbered(1, partition));
    await allCommitted();
    assert.deepEqual(lost, [{ partition, from: 2n, to: 5n, why: 'dropped' }]);
  },
);

testEveryDriver(
  'a group that never read finds nothing lost, and one that is past the end is cut off',
  async (t) => {
    const { brokers, topic, groupId, append } = await aGroup(t);
    await append(...numbered(2, 0));
    const asked = { brokers, clientId: 'test', logger, driver: t.driver, topic, groupId };
    await emptyTestTopic({ brokers, topic });
    assert.deepEqual(await findGroupGaps(asked, 0), []);
    await commitTestOffset({ brokers, topic }, { groupId, offset: 9 });
    assert.deepEqual(await findGroupGaps(asked, 0), [
      { partition: 0, from: 2n, to: 9n, why: 'cut-off' },
    ]);
  },
);

test('only what the log no longer holds is missing before an offset', () => {
  const there = { start: 3n, end: 8n };
  const before = (next: bigint) => gapBefore({ partition: 1, next }, there);
  assert.deepEqual([before(3n), before(5n), before(8n)], [undefined, undefined, undefined]);
  assert.deepEqual(before(1n), { partition: 1, from: 1n, to: 3n, why: 'dropped' });
  assert.deepEqual(before(9n), { partition: 1, from: 8n, to: 9n, why: 'cut-off' });
});

testEveryDriver(
  'a topic that is made anew under its members is read from its beginning',
  async (t) => {
    const group = await aGroup(t);
    const { seen, consume, append, allCommitted } = group;
    consume();
    await append(...numbered(3, 0));
    await allCommitted();
    await recreateTestTopic(group);
    const producer = await connectProducer({ ...group, sendLimitMs: 5_000 });
    t.after(() => producer.close());
    await producer.send([{ value: 'anew', partition: 0 }]);
    await eventually(async () => seen.some(({ value }) => value?.toString() === 'anew'));
    await allCommitted();
  },
);
