import type { Logger } from '@triplock/runtime';
import { gatherIds } from './gather-ids.ts';
import { pauseNacks } from './pause-nacks.ts';
import { ackDeadlineSeconds, type PulledMessage } from './pull-stream.ts';
import { takeTurns, type Turn } from './take-turns.ts';
import type { InHand, IncomingMessage, MessageVerdict } from './topic.ts';

/** What is done with messages, and how the broker is answered. */
export type DeskOptions = {
  maxInFlight: number;
  handle(message: IncomingMessage): Promise<MessageVerdict>;
  acknowledge(ackIds: string[]): Promise<void>;
  /** Sets how long the messages stay here; 0 gives them back. */
  setDeadline(ackIds: string[], seconds: number): Promise<void>;
  /** Called whenever a message has left. */
  onLeft(): void;
  logger: Logger;
};

/** Messages from their arrival to their ack or nack, across streams. */
export type MessageDesk = {
  receive(messages: readonly PulledMessage[]): void;
  /** Messages that are handled, wait for it, or wait to be given back. */
  held(): number;
  inHand(): InHand;
  /** Lets messages under way finish, gives the others back, and sends every ack and nack. */
  close(): Promise<void>;
};

/** Well before the deadline, so that one lost request does not cost the message. */
const extendEveryMs = (ackDeadlineSeconds * 1_000) / 3;

/**
 * Opens a desk. Messages of one ordering key that wait are handed over together, one after another
 * as they came, so that they can share what handling costs; later ones wait for the verdicts on all
 * of them.
 */
export function openMessageDesk(options: DeskOptions): MessageDesk {
  const { handle, logger } = options;
  const inTurn = takeTurns(options.maxInFlight);
  /** By ack id, when each was published. */
  const held = new Map<string, Date>();
  const acks = gatherIds(options.acknowledge);
  const nacks = gatherIds((ids) => options.setDeadline(ids, 0));
  const extensions = gatherIds((ids) => options.setDeadline(ids, ackDeadlineSeconds));
  const emptied = Promise.withResolvers<void>();
  let closing = false;

  const leave = (ackId: string) => {
    held.delete(ackId);
    options.onLeft();
    if (closing && held.size === 0) emptied.resolve();
  };
  const giveBack = (ackId: string) => {
    nacks.add(ackId);
    leave(ackId);
  };
  const paused = pauseNacks(giveBack);
  const judge = async (message: IncomingMessage): Promise<MessageVerdict> => {
    try {
      return await handle(message);
    } catch (error) {
      const { id, orderingKey } = message;
      logger.warn(
        { err: error, messageId: id, orderingKey },
        'message failed, will be redelivered',
      );
      return 'nack';
    }
  };
  const work = async (ackId: string, message: IncomingMessage): Promise<void> => {
    if (closing) return giveBack(ackId);
    if ((await judge(message)) === 'nack') return paused.pause(ackId, message.orderingKey);
    paused.succeeded(message.orderingKey);
    acks.add(ackId);
    leave(ackId);
  };

  const extension = setInterval(() => {
    for (const ackId of held.keys()) extensions.add(ackId);
  }, extendEveryMs);
  return {
    receive: (messages) => {
      const turns = messages.map((pulled): Turn => {
        const ackId = pulled.ackId!;
        const message = incoming(pulled);
        held.set(ackId, message.publishTime);
        return { key: message.orderingKey, work: () => work(ackId, message) };
      });
      inTurn(turns);
    },
    held: () => held.size,
    inHand: () => ({ messages: held.size, oldestMs: ageOfOldest(held.values()) }),
    close: async () => {
      closing = true;
      paused.end();
      if (held.size > 0) await emptied.promise;
      clearInterval(extension);
      await Promise.all([acks.flush(), nacks.flush(), extensions.flush()]);
    },
  };
}

/** A broker's clock may be ahead of this one. */
function ageOfOldest(published: Iterable<Date>): number {
  const now = Date.now();
  let oldestMs = 0;
  for (const time of published) oldestMs = Math.max(oldestMs, now - time.getTime());
  return oldestMs;
}

function incoming({ message, deliveryAttempt }: PulledMessage): IncomingMessage {
  const { messageId, data, attributes, orderingKey, publishTime } = message!;
  const publishedMs = Number(publishTime?.seconds) * 1_000 + Number(publishTime?.nanos) / 1e6;
  return {
    id: messageId!,
    data: Buffer.from(data as Uint8Array),
    attributes: attributes ?? {},
    orderingKey: orderingKey ?? '',
    deliveryAttempt: deliveryAttempt ?? 0,
    publishTime: new Date(publishedMs),
  };
}
