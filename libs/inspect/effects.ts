import type { TransactionKind } from '@triplock/payments';
import { consumers } from '@triplock/pipeline';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'effects.sql', [
  'ledger',
  'entries',
  'events',
  'consumed',
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
  /** Who is asked about it, and what that calls them; null for a book transfer. */
  provider: string | null;
  intentId: string | null;
  chargeId: string | null;
  refundId: string | null;
};

/** Money moved by a payment. */
export type Entry = { debit: string; credit: string; amount: bigint; currency: string; at: Date };

/** One event of a payment: in the outbox, as published, and what every consumer made of it. */
export type EventRow = PublishedEvent & Consumed;

/** An event in the outbox, as published, and as a webhook. */
type PublishedEvent = {
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
  delivery: string | null;
  attempts: number;
  deliveredAt: Date | null;
};

type Traced = (typeof consumers)[number]['trace'];
/**
 * At each consumer the rows that say that guard 3 let the event through there, when it did, and
 * whether the cursor has passed it; a key conflict, which has no sequence, is passed by none.
 */
export type Consumed = {
  [Each in Traced as Each['rows']]: number;
} & {
  [Each in Traced as Each['receivedAt']]: Date | null;
} & {
  [Each in Traced as Each['isPast']]: boolean;
};
type ConsumedRow = {
  eventId: string;
  consumer: string;
  rows: number;
  receivedAt: Date | null;
  isPast: boolean;
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
  const names = consumers.map(({ name }) => name);
  const [ledger, entries, published, consumed, deadLetters] = await Promise.all([
    database.query<LedgerRow>(sql.ledger, [txnId]),
    database.query<Entry>(sql.entries, [txnId]),
    database.query<PublishedEvent>(sql.events, [txnId]),
    database.query<ConsumedRow>(sql.consumed, [txnId, names]),
    database.query<DeadRecord>(sql.deadLetters, [txnId]),
  ]);
  const ofEvent = Map.groupBy(consumed, ({ eventId }) => eventId);
  const events = published.map((event) => ({
    ...event,
    ...consumedOf(ofEvent.get(event.eventId) ?? []),
  }));
  return { ledger, entries, events, deadLetters };
}

/** An event that was written between the two statements no consumer has yet. */
function consumedOf(rows: readonly ConsumedRow[]): Consumed {
  const fields = consumers.flatMap(({ name, trace }) => {
    const row = rows.find(({ consumer }) => consumer === name);
    return [
      [trace.rows, row?.rows ?? 0],
      [trace.receivedAt, row?.receivedAt ?? null],
      [trace.isPast, row?.isPast ?? false],
    ];
  });
  return Object.fromEntries(fields) as Consumed;
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
