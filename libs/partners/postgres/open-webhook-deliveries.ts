import type { EventId, EventType, TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type {
  DeliveryPage,
  DeliveryQuestion,
  Redelivery,
  RedeliveryOrder,
  RedeliveryOutcome,
  ShownDelivery,
  WebhookDeliveries,
} from '../webhook-deliveries.ts';

const listDeliveries = loadSql(import.meta.url, 'list-deliveries.sql');
const findDeliveryPlace = loadSql(import.meta.url, 'find-delivery-place.sql');
const redeliver = loadSql(import.meta.url, 'redeliver.sql');
const redeliverWindowSql = loadSql(import.meta.url, 'redeliver-window.sql');

/** Webhook deliveries in PostgreSQL, where the notifier keeps them. */
export function openWebhookDeliveries(database: Database): WebhookDeliveries {
  return {
    list: (question) => list(database, question),
    async redeliver({ partnerId, eventId }) {
      const [row] = await database.query<Row>(redeliver, [partnerId, eventId]);
      return row && fromRow(row);
    },
    redeliverWindow: (order) => redeliverWindow(database, order),
  };
}

async function list(database: Database, question: DeliveryQuestion): Promise<DeliveryPage> {
  const { partnerId, limit, state, txnId, startingAfter } = question;
  let after: string | undefined;
  if (startingAfter !== undefined) {
    const place = [partnerId, startingAfter];
    const [row] = await database.query<{ created_at: string }>(findDeliveryPlace, place);
    if (row === undefined) return { outcome: 'unknown-cursor' };
    after = row.created_at;
  }
  // One more than is shown tells whether there are more.
  const rows = await database.query<Row>(listDeliveries, [
    partnerId,
    limit + 1,
    state,
    after,
    startingAfter,
    txnId,
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
  const [row] = await database.query<ActRow>(redeliverWindowSql, asked);
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
