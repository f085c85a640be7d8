import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { checkRetention, type Sources } from './check-retention.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const kept = (hours: number) =>
  ({ outcome: 'known', retentionMs: hours * 3_600_000, oldestMs: 0 }) as const;
const silent = { outcome: 'unknown', why: 'it does not answer' } as const;
const check = (inboxHours: number, sources: Sources) =>
  checkRetention(inboxHours, { ...sources, logger });

test('an inbox that remembers as long as anything can come again is accepted', () => {
  check(720, { outbox: kept(720), subscription: kept(168) });
  check(168, { outbox: kept(24), subscription: kept(168) });
});

test('an inbox that forgets before Pub/Sub does is refused', () => {
  assert.throws(() => check(167, { outbox: kept(24), subscription: kept(168) }), {
    message:
      'INBOX_RETENTION_HOURS is 167 and Pub/Sub can deliver events again for 168 hours: the inbox must remember an event for as long as it can come again',
  });
});

test('an inbox that forgets what the dispatchers can still publish again is refused', () => {
  assert.throws(() => check(720, { outbox: kept(721), subscription: kept(168) }), {
    message:
      "INBOX_RETENTION_HOURS is 720 and the dispatchers' OUTBOX_RETENTION_HOURS keep events for 721 hours: the inbox must remember an event for as long as it can come again",
  });
});

test('what does not tell its retention refuses nothing, and hides no other', () => {
  check(24, { outbox: silent, subscription: silent });
  assert.throws(() => check(24, { outbox: silent, subscription: kept(25) }), /Pub\/Sub/);
  assert.throws(() => check(24, { outbox: kept(25), subscription: silent }), /dispatchers/);
});
