import { createRequire } from 'node:module';

/** What is used of a connection's queue of requests, which kafkajs does not export. */
type RequestQueue = { pending: readonly unknown[]; scheduleCheckPendingRequests(): void };

/**
 * Lets kafkajs rest while it has nothing to send. Its queue looks for pending requests every
 * millisecond on every connection, also when there are none: with no throttle the delay that it
 * computes is negative, which a timer takes for 1 ms (2.2.4;
 * https://github.com/tulios/kafkajs/issues/1704). A process with nothing to do is never at rest so.
 * Without a pending request there is nothing to look for, and the one that comes schedules its own
 * look.
 *
 * @throws when kafkajs has no such queue any more, at the boot and not in the middle of a night.
 */
export function restIdleQueues(): void {
  const require = createRequire(import.meta.url);
  const { prototype: queue } = require('kafkajs/src/network/requestQueue') as {
    prototype: RequestQueue;
  };
  const schedule = queue.scheduleCheckPendingRequests;
  if (typeof schedule !== 'function')
    throw new Error('kafkajs queues requests differently from the version this was written for');
  queue.scheduleCheckPendingRequests = function scheduleWhenPending() {
    if (this.pending.length > 0) schedule.call(this);
  };
}
