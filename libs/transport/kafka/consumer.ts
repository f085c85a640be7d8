import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '@triplock/runtime';
import { openInquiry } from './ask-brokers.ts';
import { startMember, type GroupMember, type MemberOptions } from './group-member.ts';
import type { RecordConsumer } from './log.ts';

/**
 * Consumes a topic from its beginning as one of a group. It starts by itself, also when no broker
 * answers yet, and starts again after every error until it is closed.
 */
export function runConsumer(options: MemberOptions): RecordConsumer {
  const { logger, groupId } = options;
  const closing = new AbortController();
  const closed = abortOf(closing.signal);
  const inquiry = openInquiry(options);
  let member: GroupMember | undefined;

  const consumeOnce = async (): Promise<void> => {
    try {
      member = await startMember(options, closed);
      await Promise.race([member.ended, closed]);
    } finally {
      await member?.leave();
      member = undefined;
    }
  };

  const run = async (): Promise<void> => {
    for (let failures = 0; !closing.signal.aborted; failures += 1) {
      const startedAt = performance.now();
      try {
        await consumeOnce();
      } catch (error) {
        if (error === closing.signal.reason) return;
        // A member that lived for a while had its luck: the next one starts without a long rest.
        if (performance.now() - startedAt > 30_000) failures = 0;
        logger.warn({ err: error, groupId, failures }, 'consumer stopped, will start again');
        await rest(failures, closing.signal);
      }
    }
  };

  const ended = run();
  return {
    ping: async () => {
      if (member === undefined) throw new Error('not a member of the consumer group');
      await inquiry.ping(options.topic);
    },
    close: async () => {
      closing.abort();
      await ended;
      await inquiry.close();
    },
  };
}

function abortOf(signal: AbortSignal): Promise<never> {
  const aborted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
  aborted.catch(() => undefined); // A close that nobody waits for is no error.
  return aborted;
}

function rest(failures: number, signal: AbortSignal): Promise<unknown> {
  const ms = backoffMs(failures, { firstMs: 100, maxMs: 3_000 });
  return delay(ms, undefined, { signal }).catch(() => undefined);
}
