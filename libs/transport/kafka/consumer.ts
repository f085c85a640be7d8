import { supervise } from '../supervise.ts';
import { openInquiry } from './ask-brokers.ts';
import { startMember, type GroupMember, type MemberOptions } from './group-member.ts';
import type { RecordConsumer } from './log.ts';

/**
 * Consumes a topic from its beginning as one of a group. It starts by itself, also when no broker
 * answers yet, and starts again after every error until it is closed.
 */
export function runConsumer(options: MemberOptions): RecordConsumer {
  const inquiry = openInquiry(options);
  let member: GroupMember | undefined;

  const live = async (closing: Promise<never>): Promise<void> => {
    try {
      member = await startMember(options, closing);
      await Promise.race([member.ended, closing]);
    } finally {
      const leaving = member;
      member = undefined;
      options.onAssigned?.([]);
      await leaving?.leave();
    }
  };
  const lives = supervise({
    what: `consumer group ${options.groupId}`,
    live,
    logger: options.logger,
  });
  return {
    ping: async () => {
      if (member === undefined) throw new Error('not a member of the consumer group');
      await inquiry.ping(options.topic);
    },
    close: async () => {
      await lives.close();
      await inquiry.close();
    },
  };
}
