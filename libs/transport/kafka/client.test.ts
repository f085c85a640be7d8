import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { restIdleQueues } from './client.ts';

restIdleQueues();

type Queue = {
  throttleCheckTimeoutId: unknown;
  checkPendingRequests(): void;
  maybeThrottle(ms: number): void;
  push(request: object): void;
  destroy(): void;
};
type QueueClass = new (options: object) => Queue;

const require = createRequire(import.meta.url);
const RequestQueue = require('kafkajs/src/network/requestQueue') as QueueClass;

function aQueue(): Queue {
  return new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 1_000,
    enforceRequestTimeout: false,
    clientId: 'test',
    broker: 'none',
    logger: { debug: () => undefined },
    isConnected: () => true,
  });
}

test('a queue without a request sets no timer', (t) => {
  const queue = aQueue();
  t.after(() => queue.destroy());
  queue.checkPendingRequests();
  assert.equal(queue.throttleCheckTimeoutId, null);
});

test('a request that a broker throttled is sent when it may, and then there is rest', async (t) => {
  const queue = aQueue();
  t.after(() => queue.destroy());
  const sent: number[] = [];
  queue.maybeThrottle(20);
  const startedAt = Date.now();
  queue.push({
    entry: { correlationId: 1, apiName: 'Metadata' },
    expectResponse: true,
    sendRequest: () => sent.push(Date.now() - startedAt),
  });
  assert.deepEqual(sent, []);
  assert.notEqual(queue.throttleCheckTimeoutId, null);
  await eventually(async () => sent.length === 1);
  assert.ok(sent[0]! >= 19, `sent after ${sent[0]} ms`);
  assert.equal(queue.throttleCheckTimeoutId, null);
});
