import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { checkRetention, type Retentions } from './check-retention.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const week = { outcome: 'known', retentionMs: 7 * 86_400_000 } as const;
const check = (
  retentions: Retentions,
  subscription: Parameters<typeof checkRetention>[1]['subscription'],
) => checkRetention(retentions, { subscription, logger });

test('an inbox that remembers as long as anything can come again is accepted', () => {
  check({ inboxHours: 720, outboxHours: 720 }, week);
  check({ inboxHours: 168, outboxHours: 24 }, week);
});

test('an inbox that forgets before Pub/Sub does is refused', () => {
  assert.throws(() => check({ inboxHours: 167, outboxHours: 24 }, week), {
    message:
      'INBOX_RETENTION_HOURS is 167 and Pub/Sub can deliver events again for 168 hours: the inbox must remember an event for as long as it can come again',
  });
});

test('an inbox that forgets what can still be republished is refused', () => {
  assert.throws(
    () => check({ inboxHours: 720, outboxHours: 721 }, week),
    /for as long as it can be republished/,
  );
});

test('a broker that does not tell its retention refuses nothing', () => {
  check({ inboxHours: 24, outboxHours: 24 }, { outcome: 'unknown', why: 'it does not answer' });
});
