/** A message to publish. Messages of one ordering key are delivered in the order of their acks. */
export type OutgoingMessage = {
  orderingKey: string;
  data: Buffer;
  /** `event_id` is what consumers know a copy by: nothing is published without. */
  attributes: Readonly<Record<string, string> & { event_id: string }>;
};

/** What publishing one message came to, in the order given. */
export type PublishOutcome =
  | { outcome: 'published' }
  /**
   * The broker may or may not have it; or it was not sent because an earlier one of its key failed.
   */
  | { outcome: 'unknown'; error: Error }
  /** The broker will never take this message (too large, malformed). */
  | { outcome: 'unpublishable'; error: Error };

/** Publishes to one topic with ordering keys. */
export type Publisher = {
  /**
   * Publishes messages of one ordering key in order. After the first failure no later message of
   * the call is sent, and the key is open again for the next call. Answers within the publisher's
   * limit, whatever the broker does; nothing of the call is sent after that.
   */
  publishInOrder(messages: readonly OutgoingMessage[]): Promise<PublishOutcome[]>;
  ping(): Promise<void>;
  close(): Promise<void>;
};

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
export type MessageVerdict = 'ack' | 'nack';

/** Messages that a subscriber has and has not finished. */
export type InHand = {
  messages: number;
  /**
   * How long ago the oldest of them was published; 0 without any. The broker may hold back older
   * ones.
   */
  oldestMs: number;
};

/** A running subscription. `close` lets messages under way finish and gives the others back. */
export type Subscriber = { inHand(): InHand; ping(): Promise<void>; close(): Promise<void> };
