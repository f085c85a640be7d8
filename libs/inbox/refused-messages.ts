/** A message as the broker delivered it. */
export type DeliveredMessage = {
  id: string;
  data: Buffer;
  attributes: Readonly<Record<string, string>>;
};

/** Why it is no event of ours; `reason` is a stable word, `detail` is for people. */
export type Refusal = { reason: string; detail: string };

/**
 * Keeps messages that no redelivery would make better, so that they can be acknowledged and hold
 * up nothing.
 */
export type RefusedMessages = {
  /** Once it resolves the message is durable here and may be acknowledged. */
  record(message: DeliveredMessage, refusal: Refusal): Promise<'recorded' | 'known'>;
};
