import type { TransactionKind } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';

/** The ledger's row of a payment or a refund. */
export type LedgerRow = {
  kind: TransactionKind;
  /** A refund's payment. */
  paymentId: string | null;
  partner: string;
  key: string;
  fingerprint: string;
  state: string;
  /** Why it failed. */
  failure: string | null;
  /** Null for a refund of which it is not known yet what fits. */
  amount: bigint | null;
  currency: string | null;
  createdAt: Date;
  settledAt: Date | null;
  /** What the provider calls them; cards only. */
  intentId: string | null;
  chargeId: string | null;
  refundId: string | null;
};

/** Money moved by a payment. */
export type Entry = { debit: string; credit: string; amount: bigint; currency: string; at: Date };

/**
 * One event of a payment: in the outbox, as published, at the notifier and at the settlement feed.
 */
export type EventRow = {
  eventId: string;
  type: string;
  sequence: number | null;
  /** The OpenTelemetry trace that its row has kept the context of. */
  traceId: string;
  createdAt: Date;
  state: string;
  publishedAt: Date | null;
  /** Deliveries that the auditor's own subscription has seen; 0 before the first. */
  copies: number;
  altered: number;
  firstSeenAt: Date | null;
  lastSeenAt: Date | null;
  /** Rows that say guard 3 let the event through at the notifier, and when it did. */
  inboxRows: number;
  receivedAt: Date | null;
  delivery: string | null;
  attempts: number;
  deliveredAt: Date | null;
  /** The same at the settlement feed. */
  feedRows: number;
  feedReceivedAt: Date | null;
  /**
   * Whether the feed's cursor has passed it; a key conflict, which has no sequence, adds nothing.
   */
  isPastFeed: boolean;
};

/** A record of the payment's id that was set aside. */
export type DeadLetter = { reason: string; partition: number; offset: bigint; at: Date };

/** What a payment left in the database, layer by layer. */
export type Effects = {
  ledger: LedgerRow[];
  entries: Entry[];
  events: EventRow[];
  deadLetters: DeadLetter[];
};

const ledgerSql = `
  SELECT kind, payment_id AS "paymentId",
         partner_id AS partner, idempotency_key AS key, encode(fingerprint, 'hex') AS fingerprint,
         state, failure_code AS failure, amount, currency,
         created_at AS "createdAt", settled_at AS "settledAt", provider_intent_id AS "intentId",
         provider_charge_id AS "chargeId", provider_refund_id AS "refundId"
  FROM ledger.transactions WHERE txn_id = $1`;

const entriesSql = `
  SELECT debit_account AS debit, credit_account AS credit, amount, currency, created_at AS at
  FROM ledger.entries WHERE txn_id = $1`;

const eventsSql = `
  SELECT o.event_id AS "eventId", o.event_type AS type, o.sequence, o.created_at AS "createdAt",
         split_part(o.traceparent, '-', 2) AS "traceId", o.state, o.published_at AS "publishedAt",
         coalesce(p.copies, 0) AS copies, coalesce(p.altered, 0) AS altered,
         p.first_seen AS "firstSeenAt", p.last_seen AS "lastSeenAt",
         i.rows AS "inboxRows", i.received_at AS "receivedAt",
         d.state AS delivery, coalesce(d.attempts, 0) AS attempts, d.finished_at AS "deliveredAt",
         f.rows AS "feedRows", f.received_at AS "feedReceivedAt",
         coalesce(c.last_sequence >= o.sequence, false) AS "isPastFeed"
  FROM ledger.outbox o
  LEFT JOIN auditor.published p USING (event_id)
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS rows, min(received_at) AS received_at
    FROM notifier.inbox WHERE event_id = o.event_id
  ) i
  LEFT JOIN LATERAL (
    -- One of each endpoint that wanted it.
    SELECT string_agg(DISTINCT state, ', ') AS state, sum(attempts)::int AS attempts,
           max(finished_at) AS finished_at
    FROM notifier.deliveries WHERE event_id = o.event_id
  ) d ON true
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS rows, min(received_at) AS received_at
    FROM settlement.inbox WHERE event_id = o.event_id
  ) f
  LEFT JOIN settlement.cursors c
    ON c.consumer = 'settlement-feed' AND c.ordering_key = o.payment_id
  WHERE o.txn_id = $1 ORDER BY o.sequence NULLS LAST, o.order_id`;

const deadLettersSql = `
  SELECT reason, kafka_partition AS partition, kafka_offset AS offset, first_seen AS at
  FROM auditor.dead_letters WHERE txn_id = $1 ORDER BY first_seen`;

const refundsSql = `
  SELECT txn_id AS "txnId" FROM ledger.transactions
  WHERE payment_id = $1 ORDER BY created_at, txn_id LIMIT 100`;

/** The refunds, captures and cancellations of a payment, oldest first; 100 at most. */
export async function readRefundIds(database: Queryable, paymentId: string): Promise<string[]> {
  const rows = await database.query<{ txnId: string }>(refundsSql, [paymentId]);
  return rows.map(({ txnId }) => txnId);
}

/** Reads layer by layer; nothing is locked, so a payment may move meanwhile. */
export async function readEffects(database: Queryable, txnId: string): Promise<Effects> {
  const [ledger, entries, events, deadLetters] = await Promise.all([
    database.query<LedgerRow>(ledgerSql, [txnId]),
    database.query<Entry>(entriesSql, [txnId]),
    database.query<EventRow>(eventsSql, [txnId]),
    database.query<DeadLetter>(deadLettersSql, [txnId]),
  ]);
  return { ledger, entries, events, deadLetters };
}

/**
 * Until when the ledger's copy holds, where the auditor is in the midst of a backlog; nothing where
 * the copy is as of one moment, or the ledger is in PostgreSQL itself.
 */
export async function readCopyUntil(database: Queryable): Promise<Date | undefined> {
  const sql = 'SELECT until_micros AS micros FROM ledger.copied WHERE behind';
  const [row] = await database.query<{ micros: bigint }>(sql);
  return row && new Date(Number(row.micros / 1_000n));
}

/** What that means for whoever reads the ledger's tables, in a sentence. */
export function describeCopyUntil(until: Date): string {
  return `the ledger's copy is being brought up to now: what changed after ${until.toISOString()} may be missing or older here`;
}

/** A webhook as the demo's catcher received it: one per webhook-id, however often it came. */
export type Receipt = {
  id: string;
  partner: string;
  /** Whether the signature held, by the official Standard Webhooks library. */
  verified: boolean;
  attempts: number;
  /** What the partner did about it. */
  effects: 0 | 1;
  type: string;
  /** RFC 3339. */
  firstAt: string;
  lastAt: string;
};

/** The webhooks about a payment that the demo's partners got since the catcher was started. */
export function readReceipts(catcher: string, txnId: string): Promise<Receipt[]> {
  return askCatcher(`${catcher}/received?txn=${txnId}`);
}

/** All webhooks that they got. */
export function readAllReceipts(catcher: string): Promise<Receipt[]> {
  return askCatcher(`${catcher}/received`);
}

async function askCatcher(url: string): Promise<Receipt[]> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  if (!answer.ok) throw new Error(`the catcher answered ${answer.status}`);
  return (await answer.json()) as Receipt[];
}
