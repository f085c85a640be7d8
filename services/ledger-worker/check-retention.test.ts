import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import { readTopicRetention, type TopicRetention } from '@triplock/transport';
import { checkRetention } from './check-retention.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const dayMs = 86_400_000;
const kept = {
  outcome: 'known',
  retentionMs: 7 * dayMs,
  segmentMs: 7 * dayMs,
  retentionBytes: Infinity,
  keepsEveryRecord: true,
} as const;
const check = (retention: TopicRetention) => checkRetention('accepted', retention, logger);

test('a topic that keeps records longer than a claim lives is accepted', async (context) => {
  check(kept);
  check({ ...kept, retentionMs: Infinity });
  const topic = await createTestTopic(context);
  const real = await readTopicRetention({ ...topic, clientId: 'test', logger });
  assert.deepEqual(real, kept);
});

test('a topic that drops records while their claims still answer is refused', () => {
  assert.throws(() => check({ ...kept, retentionMs: dayMs }), {
    message:
      'topic accepted keeps records for 24 hours (retention.ms): it must be more than the 24 hours for which a claim answers retries',
  });
});

test('a broker that does not tell its retention refuses nothing', () => {
  check({ outcome: 'unknown', why: 'no broker answers' });
});

test('a compacted topic is refused', () => {
  assert.throws(() => check({ ...kept, keepsEveryRecord: false }), /is compacted/);
});
