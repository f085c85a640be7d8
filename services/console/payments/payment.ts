import { isCopied, ledgerStoreNamed } from '@triplock/ledgers';
import { type TxnId, maskCardNumbers } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';
import {
  describeCopyUntil,
  readCopyUntil,
  readEffects,
  type Consumed,
  type DeadRecord,
  type Effects,
  type Entry,
  type EventRow,
} from '@triplock/inspect';
import { consumers } from '@triplock/pipeline';
import type { Console } from '../console.ts';
import * as json from '../edge/schema.ts';

const sql = loadStatements(import.meta.url, 'payment.sql', [
  'row',
  'accepted',
  'followers',
  'disputes',
  'journal',
  'deliveries',
  'rawForms',
]);

const transactionRow = json.component('Row', {
  id: json.uuid,
  kind: json.text,
  partner: json.text,
  key: json.text,
  /** Of a refund, capture or cancellation. */
  paymentId: json.orNull(json.uuid),
  requested: json.orNull(json.minorUnits),
  amount: json.orNull(json.minorUnits),
  currency: json.orNull(json.text),
  state: json.text,
  method: json.orNull(json.text),
  reference: json.orNull(json.text),
  details: {
    ...json.orNull(json.text),
    description: 'JSON of what the ledger does not compute with',
  },
  createdAt: json.time,
  settledAt: json.orNull(json.time),
  failureCode: json.orNull(json.text),
  failureMessage: json.orNull(json.text),
  captured: json.orNull(json.minorUnits),
  refunded: json.minorUnits,
  reserved: json.minorUnits,
  authorizedAt: json.orNull(json.time),
  actionExpiresAt: json.orNull(json.time),
  dueAt: json.orNull(json.time),
  closedBy: json.orNull(json.uuid),
  provider: json.orNull(json.text),
  intentId: json.orNull(json.text),
  chargeId: json.orNull(json.text),
  refundId: json.orNull(json.text),
  traceId: json.orNull(json.text),
  fingerprint: json.text,
  version: json.whole,
});
/** The ledger's row of a transaction. */
export type TransactionRow = json.ValueOf<typeof transactionRow>;

const acceptedRecord = json.component('Request', {
  partition: json.whole,
  offset: json.bigWhole,
  at: json.time,
  kind: json.text,
  partner: json.text,
  paymentId: json.orNull(json.uuid),
  amount: json.orNull(json.minorUnits),
  currency: json.orNull(json.text),
});
/** A request of the accepted topic, where and when the auditor read it. */
export type AcceptedRecord = json.ValueOf<typeof acceptedRecord>;

const follower = json.component('Follower', {
  id: json.uuid,
  kind: json.text,
  amount: json.orNull(json.minorUnits),
  currency: json.orNull(json.text),
  state: json.text,
  failureCode: json.orNull(json.text),
  createdAt: json.time,
  settledAt: json.orNull(json.time),
});
/** A refund, capture or cancellation of a payment. */
export type Follower = json.ValueOf<typeof follower>;

const dispute = json.component('Dispute', {
  id: json.text,
  amount: json.minorUnits,
  reason: json.text,
  at: json.time,
  status: json.text,
  endedAt: json.orNull(json.time),
  evidenceDueBy: json.orNull(json.time),
});
/** A dispute of a payment, by the provider's id. */
export type Dispute = json.ValueOf<typeof dispute>;

const journalEntry = json.component('JournalEntry', {
  kind: json.text,
  id: json.text,
  status: json.text,
  amount: json.minorUnits,
  currency: json.text,
  createdAt: json.time,
  changedAt: json.time,
});
/** What the provider has, as its lists showed it last. */
export type JournalEntry = json.ValueOf<typeof journalEntry>;

const attempt = json.component('Attempt', {
  attempt: json.whole,
  status: json.orNull(json.whole),
  error: json.orNull(json.text),
  tookMs: json.whole,
  at: json.time,
});
type Attempt = json.ValueOf<typeof attempt>;

const webhook = json.component('Webhook', {
  id: json.text,
  type: json.text,
  state: json.text,
  /** Nothing where there is no such endpoint any more. */
  url: json.orNull(json.text),
  createdAt: json.time,
  finishedAt: json.orNull(json.time),
  nextAttemptAt: json.time,
  attempts: json.listOf(attempt),
});
/** One webhook, with its attempts in order. */
export type Webhook = json.ValueOf<typeof webhook>;

/** A movement of money. */
export const entry = json.shapeOf<Entry>('Entry', {
  debit: json.text,
  credit: json.text,
  amount: json.minorUnits,
  currency: json.text,
  at: json.time,
});

/** What each consumer made of an event. */
const consumedShape = Object.fromEntries(
  consumers.flatMap(({ trace }): [string, json.Schema][] => [
    [trace.rows, json.whole],
    [trace.receivedAt, json.orNull(json.time)],
    [trace.isPast, json.flag],
  ]),
) as Record<keyof Consumed, json.Schema>;

/** An event, and what became of it. */
export const event = json.shapeOf<EventRow>('Event', {
  eventId: json.uuid,
  type: json.text,
  sequence: json.orNull(json.whole),
  traceId: json.text,
  createdAt: json.time,
  state: json.text,
  publishedAt: json.orNull(json.time),
  copies: json.whole,
  altered: json.whole,
  firstSeenAt: json.orNull(json.time),
  lastSeenAt: json.orNull(json.time),
  delivery: json.orNull(json.text),
  attempts: json.whole,
  deliveredAt: json.orNull(json.time),
  ...consumedShape,
});

/** A record that was set aside. */
export const deadRecord = json.shapeOf<DeadRecord>('DeadRecord', {
  reason: json.text,
  partition: json.whole,
  offset: json.whole,
  at: json.time,
});

/** One transaction as the database has it, layer by layer. */
export type PaymentView = {
  id: TxnId;
  /** Nothing while no worker has posted it. */
  row: TransactionRow | undefined;
  accepted: AcceptedRecord[];
  followers: Follower[];
  disputes: Dispute[];
  journal: JournalEntry[];
  webhooks: Webhook[];
} & Omit<Effects, 'ledger'>;

/** The same as programs get it. */
export const paymentSchema = json.shapeOf<PaymentView>('Payment', {
  id: json.uuid,
  row: json.optional(transactionRow),
  accepted: json.listOf(acceptedRecord),
  followers: json.listOf(follower),
  journal: json.listOf(journalEntry),
  webhooks: json.listOf(webhook),
  entries: json.listOf(entry),
  events: json.listOf(event),
  disputes: json.listOf(dispute),
  deadLetters: json.listOf(deadRecord),
});

/**
 * A payment, refund, capture or cancellation by its id, from every table that has something of it.
 * Nothing when none has.
 */
export async function viewPayment(
  database: Queryable,
  id: TxnId,
): Promise<PaymentView | undefined> {
  const [[row], accepted, followers, disputes, journal, attempts, effects] = await Promise.all([
    database.query<TransactionRow>(sql.row, [id]),
    database.query<AcceptedRecord>(sql.accepted, [id]),
    database.query<Follower>(sql.followers, [id]),
    database.query<Dispute>(sql.disputes, [id]),
    database.query<JournalEntry>(sql.journal, [id]),
    database.query<AttemptRow>(sql.deliveries, [id]),
    readEffects(database, id),
  ]);
  const { entries, events, deadLetters } = effects;
  if (row === undefined && accepted.length + deadLetters.length === 0) return undefined;
  const webhooks = webhooksOf(attempts);
  if (row !== undefined) Object.assign(row, maskedTexts(row));
  const own = { row, accepted, followers, disputes, journal, webhooks };
  return { id, ...own, entries, events, deadLetters };
}

type AttemptRow = Omit<Webhook, 'attempts'> & Attempt & { attempt: number | null };

function webhooksOf(rows: readonly AttemptRow[]): Webhook[] {
  const byId = Map.groupBy(rows, ({ id }) => id);
  return [...byId.values()].map((mine) => {
    const { attempt: _, status: __, error: ___, tookMs: ____, at: _____, ...webhook } = mine[0]!;
    const attempts = mine.flatMap(({ attempt, status, error, tookMs, at }) =>
      attempt === null ? [] : [{ attempt, status, error, tookMs, at }],
    );
    return { ...webhook, attempts };
  });
}

/** What whoever reads the ledger here has to know: that this is a copy, and until when it holds. */
export async function describeCopy({ config, database }: Console): Promise<string | undefined> {
  const { LEDGER_STORE: store } = config;
  if (!isCopied(store)) return undefined;
  const until = await readCopyUntil(database);
  const where = `The ledger is in ${ledgerStoreNamed(store).title}`;
  const copied = `${where}: this is its copy in PostgreSQL, about two seconds old.`;
  return until === undefined ? copied : `${copied} Now ${describeCopyUntil(until)}.`;
}

/** Said where a webhook went whose endpoint is no more. */
export const goneEndpoint = 'Its endpoint is deleted';

/** A text as it went out. */
export type RawForm = { what: 'event' | 'webhook'; id: string; text: string; at: Date };

/** The events of a transaction as they are published, and its webhooks as they are sent; masked. */
export async function readRawForms(database: Queryable, id: TxnId): Promise<RawForm[]> {
  const forms = await database.query<RawForm>(sql.rawForms, [id]);
  return forms.map((form) => ({ ...form, text: maskCardNumbers(form.text) }));
}

/** What partners may write as they like, and so may have written a card's number into. */
export function maskedTexts<
  Row extends { key: string; reference: string | null; details?: string | null },
>(row: Row): Row {
  const [reference, details] = [row.reference, row.details].map(
    (text) => text && maskCardNumbers(text),
  );
  return { ...row, key: maskCardNumbers(row.key), reference, ...('details' in row && { details }) };
}
