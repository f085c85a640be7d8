import type {
  EndpointId,
  EventId,
  EventType,
  Fingerprint,
  IdempotencyKey,
  PartnerId,
  TxnId,
} from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { tellTooOften } from './done-too-often.ts';

const sql = loadStatements(import.meta.url, 'postgres/webhook-deliveries.sql', [
  'listDeliveries',
  'findDeliveryPosition',
  'redeliver',
  'redeliverWindow',
]);

/** Which delivery of an event, from 1, in the order in which their endpoints were made. */
export type DeliveryId = { eventId: EventId; ordinal: number };

/** A webhook delivery as its partner may see it. */
export type ShownDelivery = DeliveryId & {
  /** Null: none yet, because the partner had none. */
  endpointId: EndpointId | null;
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

/**
 * `parked` waits for its endpoint to be open. `failed` was given up; a partner may ask for it
 * again. `canceled` was not delivered when its endpoint was deleted.
 */
export type DeliveryState = 'pending' | 'parked' | 'delivered' | 'failed' | 'canceled';

/** Which deliveries to show. */
export type DeliveryQuestion = {
  partnerId: PartnerId;
  limit: number;
  state?: DeliveryState;
  /** Only those about this payment or refund. */
  txnId?: TxnId;
  /** The last delivery of the page before. */
  startingAfter?: DeliveryId;
};

/** One page of deliveries, the newest first. */
export type DeliveryPage =
  | { outcome: 'page'; deliveries: ShownDelivery[]; more: boolean }
  /** `startingAfter` is no delivery of this partner. */
  | { outcome: 'unknown-cursor' };

/** Which deliveries to make due again, and the request by whose key it is done once. */
export type RedeliveryOrder = {
  partnerId: PartnerId;
  key: IdempotencyKey;
  fingerprint: Fingerprint;
  /** Deliveries made from then on, and before `until` or now. Times as RFC 3339 writes them. */
  since: string;
  until?: string;
  state?: DeliveryState;
  /** How many to take, oldest first. What was made at one moment is taken together. */
  limit: number;
};

/** What was done about a window. Times are RFC 3339, UTC, microseconds. */
export type Redelivery = {
  since: string;
  until: string;
  state: DeliveryState | null;
  /** How many were made due. */
  deliveries: number;
  /** Where the rest of the window begins; null when nothing was left. */
  nextSince: string | null;
};

/** What became of an order. */
export type RedeliveryOutcome =
  | { outcome: 'redelivered' | 'replayed'; redelivery: Redelivery }
  /** The key belongs to another request. */
  | { outcome: 'reused' }
  /** It ends before it begins, or is longer than 31 days; nothing was done. */
  | { outcome: 'empty-window' | 'wide-window' };

/** Webhook deliveries as partners see them. Every method rejects without PostgreSQL. */
export type WebhookDeliveries = {
  list(question: DeliveryQuestion): Promise<DeliveryPage>;
  /**
   * Makes a delivery due now under the same webhook-id, whatever became of it before, with a day of
   * attempts before it; `undefined` when the partner has none by this id. Asking again while it is
   * due or being sent changes nothing, nor does asking for one whose endpoint was deleted.
   */
  redeliver(delivery: DeliveryId & { partnerId: PartnerId }): Promise<ShownDelivery | undefined>;
  /**
   * Does the same to all deliveries of a window, once per key: a repeated order is answered with
   * what the first one did, for 90 days.
   *
   * @throws DoneTooOftenError when the partner has asked for 1 000 within a day.
   */
  redeliverWindow(order: RedeliveryOrder): Promise<RedeliveryOutcome>;
};

/** Webhook deliveries in PostgreSQL, in the schema webhooks. */
export function openWebhookDeliveries(database: Database): WebhookDeliveries {
  return {
    list: (question) => list(database, question),
    async redeliver({ partnerId, eventId, ordinal }) {
      const [row] = await database.query<Row>(sql.redeliver, [partnerId, eventId, ordinal]);
      return row && fromRow(row);
    },
    redeliverWindow: (order) => redeliverWindow(database, order),
  };
}

async function list(database: Database, question: DeliveryQuestion): Promise<DeliveryPage> {
  const { partnerId, limit, state, txnId, startingAfter } = question;
  let after: string | undefined;
  if (startingAfter !== undefined) {
    const cursor = [partnerId, startingAfter.eventId, startingAfter.ordinal];
    const [row] = await database.query<{ created_at: string }>(sql.findDeliveryPosition, cursor);
    if (row === undefined) return { outcome: 'unknown-cursor' };
    after = row.created_at;
  }
  // One more than is shown: then there are more.
  const rows = await database.query<Row>(sql.listDeliveries, [
    partnerId,
    limit + 1,
    state,
    after,
    startingAfter?.eventId,
    txnId,
    startingAfter?.ordinal,
  ]);
  const deliveries = rows.slice(0, limit).map(fromRow);
  return { outcome: 'page', deliveries, more: rows.length > limit };
}

async function redeliverWindow(
  database: Database,
  order: RedeliveryOrder,
): Promise<RedeliveryOutcome> {
  const { partnerId, key, fingerprint, since, until, state, limit } = order;
  const asked = [partnerId, key, fingerprint, since, until, state, limit];
  const redelivering = database.query<ActRow>(sql.redeliverWindow, asked);
  const [row] = await redelivering.catch(tellTooOften);
  const { outcome, next_since: nextSince, ...rest } = row!;
  switch (outcome) {
    case 'redelivered':
    case 'replayed':
      return { outcome, redelivery: { ...rest, nextSince } };
    case 'reused':
    case 'empty-window':
    case 'wide-window':
      return { outcome };
    default:
      return outcome satisfies never;
  }
}

type ActRow = Omit<Redelivery, 'nextSince'> & {
  outcome: RedeliveryOutcome['outcome'];
  next_since: string | null;
};

type Row = {
  event_id: EventId;
  ordinal: number;
  endpoint_id: EndpointId | null;
  type: EventType;
  txn_id: TxnId;
  state: ShownDelivery['state'];
  attempts: number;
  last_status: number | null;
  last_error: ShownDelivery['lastError'];
  created_at: Date;
  delivered_at: Date | null;
  next_attempt_at: Date | null;
};

function fromRow(row: Row): ShownDelivery {
  return {
    eventId: row.event_id,
    ordinal: row.ordinal,
    endpointId: row.endpoint_id,
    type: row.type,
    txnId: row.txn_id,
    state: row.state,
    attempts: row.attempts,
    lastStatus: row.last_status,
    lastError: row.last_error,
    createdAt: row.created_at,
    deliveredAt: row.delivered_at,
    nextAttemptAt: row.next_attempt_at,
  };
}
