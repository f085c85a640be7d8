import type { TransactionKind } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'effects.sql', [
  'ledger',
  'entries',
  'events',
  'deadLetters',
  'refunds',
  'known',
]);

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
export type DeadRecord = { reason: string; partition: number; offset: bigint; at: Date };

/** What a payment left in the database, layer by layer. */
export type Effects = {
  ledger: LedgerRow[];
  entries: Entry[];
  events: EventRow[];
  deadLetters: DeadRecord[];
};

/** The refunds, captures and cancellations of a payment, oldest first; 100 at most. */
export async function readRefundIds(database: Queryable, paymentId: string): Promise<string[]> {
  const rows = await database.query<{ txnId: string }>(sql.refunds, [paymentId]);
  return rows.map(({ txnId }) => txnId);
}

/** Those of these ids that the database has something of. */
export async function readKnownIds(
  database: Queryable,
  txnIds: readonly string[],
): Promise<string[]> {
  const rows = await database.query<{ txnId: string }>(sql.known, [txnIds]);
  return rows.map(({ txnId }) => txnId);
}

/** Reads layer by layer; nothing is locked, so a payment may move meanwhile. */
export async function readEffects(database: Queryable, txnId: string): Promise<Effects> {
  const [ledger, entries, events, deadLetters] = await Promise.all([
    database.query<LedgerRow>(sql.ledger, [txnId]),
    database.query<Entry>(sql.entries, [txnId]),
    database.query<EventRow>(sql.events, [txnId]),
    database.query<DeadRecord>(sql.deadLetters, [txnId]),
  ]);
  return { ledger, entries, events, deadLetters };
}

/**
 * Until when the ledger's copy holds, where the auditor is in the midst of a backlog; nothing where
 * the copy is as of one moment, or the ledger is in PostgreSQL itself.
 */
export async function readCopyUntil(database: Queryable): Promise<Date | undefined> {
  const copied = 'SELECT until_micros AS micros FROM ledger.copied WHERE behind';
  const [row] = await database.query<{ micros: bigint }>(copied);
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
