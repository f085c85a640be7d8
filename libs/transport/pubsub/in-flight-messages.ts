import type { protos } from '@google-cloud/pubsub';
import { backoffMs, openBatches, openSlots, type Logger } from '@triplock/runtime';

/** A message as received. */
export type IncomingMessage = {
  id: string;
  data: Buffer;
  attributes: Readonly<Record<string, string>>;
  orderingKey: string;
  deliveryAttempt: number;
  publishTime: Date;
};

/** `ack`: durable here, never send it again. `nack`: send it again. */
export type MessageOutcome = 'ack' | 'nack';

/** Messages that a subscriber has and has not finished. */
export type InFlight = {
  messages: number;
  /**
   * How long ago the oldest of them was published; 0 without any. The broker may hold back older
   * ones.
   */
  oldestMs: number;
};

/** A message with the id by which it is acknowledged. */
export type PulledMessage = protos.google.pubsub.v1.IReceivedMessage;

/** What is done with messages, and how the broker is answered. */
export type InFlightOptions = {
  maxInFlight: number;
  handle(message: IncomingMessage): Promise<MessageOutcome>;
  acknowledge(ackIds: string[]): Promise<void>;
  /** Sets how long the messages stay here; 0 gives them back. */
  setDeadline(ackIds: string[], seconds: number): Promise<void>;
  /** Called whenever a message has left. */
  onLeft(): void;
  logger: Logger;
};

/** Messages from their arrival to their ack or nack, across streams. */
export type InFlightMessages = {
  receive(messages: readonly PulledMessage[]): void;
  /** Messages that are handled, wait for it, or wait to be given back. */
  held(): number;
  inFlight(): InFlight;
  /** Lets messages under way finish, gives the others back, and sends every ack and nack. */
  close(): Promise<void>;
};

/** The shortest that Pub/Sub allows: so long a message stays with a subscriber that died. */
export const ackDeadlineSeconds = 10;
/** Well before the deadline, so that one lost request does not cost the message. */
const extendEveryMs = (ackDeadlineSeconds * 1_000) / 3;
/**
 * A request may have 512 KiB (cloud.google.com/pubsub/quotas), and an id 200 bytes. A longer wait
 * would only hold up the broker's flow control, and a request that hangs only its own ids.
 */
const idLimits = { itemsMax: 1_000, apartMs: 10, batchesMax: 4 };

/**
 * Opens the table of messages in flight. Messages of one ordering key that wait are handed over
 * together, one after another as they came, so that they can share what handling costs; later ones
 * wait for the outcome of all of them.
 *
 * A message leaves after its ack or nack was put down to be sent. A crash before that, or an ack
 * that is lost, has the broker deliver it again.
 */
export function openInFlightMessages(options: InFlightOptions): InFlightMessages {
  const { handle, logger } = options;
  const start = inKeyOrder(options.maxInFlight);
  /** By ack id, when each was published. */
  const held = new Map<string, Date>();
  const acks = openBatches(options.acknowledge, idLimits);
  const nacks = openBatches<string>((ids) => options.setDeadline(ids, 0), idLimits);
  const extend = (ids: string[]) => options.setDeadline(ids, ackDeadlineSeconds);
  const extensions = openBatches(extend, idLimits);
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
  const outcomeOf = async (message: IncomingMessage): Promise<MessageOutcome> => {
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
    if ((await outcomeOf(message)) === 'nack') return paused.pause(ackId, message.orderingKey);
    paused.succeeded(message.orderingKey);
    acks.add(ackId);
    leave(ackId);
  };

  const extension = setInterval(() => {
    for (const ackId of held.keys()) extensions.add(ackId);
  }, extendEveryMs);
  return {
    receive: (messages) => {
      const received = messages.map((pulled): KeyedWork => {
        const ackId = pulled.ackId!;
        const message = incoming(pulled);
        held.set(ackId, message.publishTime);
        return { key: message.orderingKey, work: () => work(ackId, message) };
      });
      start(received);
    },
    held: () => held.size,
    inFlight: () => ({ messages: held.size, oldestMs: ageOfOldest(held.values()) }),
    close: async () => {
      closing = true;
      paused.end();
      if (held.size > 0) await emptied.promise;
      clearInterval(extension);
      await Promise.all([acks.drained(), nacks.drained(), extensions.drained()]);
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

/** A piece of work of one ordering key. `work` must not reject. */
type KeyedWork = { key: string; work: () => Promise<void> };

/**
 * Runs one batch of a key after the other, and keys side by side; at most `max` pieces run at once.
 * A batch has all pieces of the key that wait: they begin together, in their order, and what comes
 * meanwhile waits until the last of them has ended. A piece with an empty key waits for no other.
 */
function inKeyOrder(max: number): (pieces: readonly KeyedWork[]) => void {
  /** By key, for each that has a batch under way or waits for a slot. */
  const waitingOf = new Map<string | symbol, KeyedWork[]>();
  const ready: (string | symbol)[] = [];
  const slots = openSlots(max);

  const begin = () => {
    while (slots.free() > 0 && ready.length > 0) void runBatch(ready.shift()!);
  };
  const run = async ({ work }: KeyedWork): Promise<void> => {
    await work();
    slots.release();
    begin();
  };
  const runBatch = async (key: string | symbol): Promise<void> => {
    const waiting = waitingOf.get(key)!;
    await Promise.all(waiting.splice(0, slots.takeFree(waiting.length)).map(run));
    if (waiting.length > 0) ready.push(key);
    else waitingOf.delete(key);
    begin();
  };
  return (pieces) => {
    for (const piece of pieces) {
      const key = piece.key === '' ? Symbol() : piece.key;
      const waiting = waitingOf.get(key);
      if (waiting) waiting.push(piece);
      else {
        waitingOf.set(key, [piece]);
        ready.push(key);
      }
    }
    begin();
  };
}

/** Nacks that wait a little. */
type PausedNacks = {
  /** Gives the message back after a pause that grows with every nack in a row of its key. */
  pause(ackId: string, key: string): void;
  /** Something of the key succeeded: its next pause is short again. */
  succeeded(key: string): void;
  /** Gives back at once what waits, and from now on without a pause. */
  end(): void;
};

/**
 * The broker sends a message that was given back again at once, and a handler that waits for a
 * database, or for an earlier message, would be asked without rest.
 */
function pauseNacks(giveBack: (ackId: string) => void): PausedNacks {
  const inARow = new Map<string, number>();
  const pausing = new Map<string, NodeJS.Timeout>();
  let ended = false;

  const give = (ackId: string) => {
    clearTimeout(pausing.get(ackId));
    pausing.delete(ackId);
    giveBack(ackId);
  };
  return {
    pause: (ackId, key) => {
      if (ended) return give(ackId);
      const before = inARow.get(key) ?? 0;
      inARow.set(key, before + 1);
      const pauseMs = backoffMs(before, { firstMs: 50, maxMs: 5_000 });
      pausing.set(ackId, setTimeout(give, pauseMs, ackId));
    },
    succeeded: (key) => void inARow.delete(key),
    end: () => {
      ended = true;
      for (const ackId of pausing.keys()) give(ackId);
    },
  };
}
