import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, ofDeadLetters, type TopicShape } from '@triplock/testing';
import { openDeadLetters } from './dead-letters.ts';
import { requireLetterRoom } from './require-letter-room.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('a topic is refused or takes a burst of dead letters in the batches that they come in', async (t) => {
  const open = async (shape: TopicShape) => {
    const place = { ...(await createTestTopic(t, shape)), clientId: 'test', logger };
    const letters = openDeadLetters(place);
    t.after(() => letters.close());
    const value = Buffer.alloc(300_000);
    const record = { key: null, value, headers: {}, topic: 'accepted', timestamp: '0' };
    const setAside = (offset: number) =>
      letters.append(
        { ...record, partition: 0, offset: BigInt(offset) },
        { reason: 'not_json', detail: 'zeros' },
      );
    return { place, burst: Promise.all([0, 1, 2, 3, 4, 5].map(setAside)) };
  };
  const small = await open({});
  await assert.rejects(small.burst);
  await assert.rejects(requireLetterRoom(small.place), (error: Error) => {
    assert.match(error.message, /^topic test\.\w+ has max\.message\.bytes 1048588,/);
    assert.match(error.message, /--add-config max\.message\.bytes=2097152$/);
    return true;
  });
  const large = await open(ofDeadLetters);
  await requireLetterRoom(large.place);
  await large.burst;
});

test('brokers that are away refuse nothing', async () => {
  await requireLetterRoom({ brokers: ['127.0.0.1:1'], topic: 'any', clientId: 'test', logger });
});
