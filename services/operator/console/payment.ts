import { hasCardNumber, type TxnId } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';
import { readEffects, type Effects } from '../effects.ts';

const sql = loadStatements(import.meta.url, 'payment.sql', [
  'row',
  'accepted',
  'followers',
  'disputes',
  'journal',
  'deliveries',
  'rawForms',
]);

/** The ledger's row of a transaction; amounts in minor units. */
export type TransactionRow = {
  id: string;
  kind: string;
  partner: string;
  key: string;
  /** Of a refund, capture or cancellation. */
  paymentId: string | null;
  requested: bigint | null;
  amount: bigint | null;
  currency: string | null;
  state: string;
  method: string | null;
  reference: string | null;
  /** JSON text of what the ledger does not compute with. */
  details: string | null;
  createdAt: Date;
  settledAt: Date | null;
  failureCode: string | null;
  failureMessage: string | null;
  captured: bigint | null;
  refunded: bigint;
  reserved: bigint;
  authorizedAt: Date | null;
  actionExpiresAt: Date | null;
  dueAt: Date | null;
  closedBy: string | null;
  provider: string | null;
  intentId: string | null;
  chargeId: string | null;
  refundId: string | null;
  traceId: string | null;
  fingerprint: string;
  version: number;
};

/** A request of the accepted topic, where and when the auditor read it. */
export type AcceptedRecord = {
  partition: number;
  offset: bigint;
  at: Date;
  kind: string;
  partner: string;
  paymentId: string | null;
  amount: bigint | null;
  currency: string | null;
};

/** A refund, capture or cancellation of a payment. */
export type Follower = {
  id: string;
  kind: string;
  amount: bigint | null;
  currency: string | null;
  state: string;
  failureCode: string | null;
  createdAt: Date;
  settledAt: Date | null;
};

/** A dispute of a payment, by the provider's id. */
export type Dispute = { id: string; amount: bigint; reason: string; at: Date };

/** What the provider has, as its lists showed it last. */
export type JournalEntry = {
  kind: string;
  id: string;
  status: string;
  amount: bigint;
  currency: string;
  createdAt: Date;
  changedAt: Date;
};

/** One webhook, with its attempts in order. */
export type Webhook = {
  id: string;
  type: string;
  state: string;
  /** Nothing where there is no such endpoint any more. */
  url: string | null;
  createdAt: Date;
  finishedAt: Date | null;
  nextAttemptAt: Date;
  attempts: {
    attempt: number;
    status: number | null;
    error: string | null;
    tookMs: number;
    at: Date;
  }[];
};

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

type AttemptRow = Omit<Webhook, 'attempts'> &
  Webhook['attempts'][number] & { attempt: number | null };

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

/** A text as it went out. */
export type RawForm = { what: 'event' | 'webhook'; id: string; text: string; at: Date };

/** The events of a transaction as they are published, and its webhooks as they are sent; masked. */
export async function readRawForms(database: Queryable, id: TxnId): Promise<RawForm[]> {
  const forms = await database.query<RawForm>(sql.rawForms, [id]);
  return forms.map((form) => ({ ...form, text: masked(form.text) }));
}

/** What partners may write as they like, and so may have written a card's number into. */
export function maskedTexts<
  Row extends { key: string; reference: string | null; details?: string | null },
>(row: Row): Row {
  const [reference, details] = [row.reference, row.details].map((text) => text && masked(text));
  return { ...row, key: masked(row.key), reference, ...('details' in row && { details }) };
}

const longNumber = /\d(?:[^\p{L}\d]{0,3}\d){11,}/gu;
const mask = '[card number masked]';

/**
 * A text without what looks like a card's number. Partners may be allowed to send such, and then it
 * is kept; a person who looks at a payment has no need of it (PCI DSS 4.0, requirement 3.4.1).
 */
export function masked(text: string): string {
  if (!hasCardNumber(text)) return text;
  const rest = text.replaceAll(longNumber, (run) => (hasCardNumber(run) ? mask : run));
  return hasCardNumber(rest) ? mask : rest;
}
