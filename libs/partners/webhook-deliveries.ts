import type { EventId, EventType, PartnerId, TxnId } from '@triplock/payments';

/** A webhook delivery as its partner may see it. */
export type ShownDelivery = {
  eventId: EventId;
  type: EventType;
  txnId: TxnId;
  state: DeliveryState;
  /** Attempts begun. */
  attempts: number;
  /** The receiver's last answer, an HTTP status. */
  lastStatus: number | null;
  /** Why the last attempt did not succeed, as a class. */
  lastError: 'refused' | 'unanswered' | 'unsendable' | null;
  createdAt: Date;
  deliveredAt: Date | null;
  nextAttemptAt: Date | null;
};

/** `failed` was given up; a partner may ask for it again. */
export type DeliveryState = 'pending' | 'delivered' | 'failed';

/** Which deliveries to show. */
export type DeliveryQuestion = {
  partnerId: PartnerId;
  limit: number;
  state?: DeliveryState;
  /** The last delivery of the page before. */
  startingAfter?: EventId;
};

/** One page of deliveries, the newest first. */
export type DeliveryPage =
  | { outcome: 'page'; deliveries: ShownDelivery[]; more: boolean }
  /** `startingAfter` is no delivery of this partner. */
  | { outcome: 'unknown-cursor' };

/** Webhook deliveries as partners see them. Every method rejects when PostgreSQL is away. */
export type WebhookDeliveries = {
  list(question: DeliveryQuestion): Promise<DeliveryPage>;
  /**
   * Makes a delivery due now under the same webhook-id, whatever became of it before, with a day of
   * attempts before it; `undefined` when the partner has none by this id. Asking again while it is
   * due or being sent changes nothing.
   */
  redeliver(delivery: {
    partnerId: PartnerId;
    eventId: EventId;
  }): Promise<ShownDelivery | undefined>;
};
