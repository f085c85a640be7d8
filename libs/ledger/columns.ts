/**
 * The columns of `ledger.transactions`, each here once. The statements that read a payment get its
 * columns from here; what else of SQL names columns is written by hand, and columns.test.ts
 * compares it with these lists and names the file to mend.
 */

/** What was asked for: never changes. */
const asked = [
  'txn_id',
  'kind',
  'partner_id',
  'idempotency_key',
  'fingerprint',
  'response_version',
  'payment_id',
  'requested_amount',
  'payment_method',
  'reference',
  'details',
  'created_at',
] as const;

/** How much: never changes once it is there. */
const amount = ['amount', 'currency'] as const;

/** How it ended: never changes once it is final. */
const ended = [
  'state',
  'failure_code',
  'failure_message',
  'settled_at',
  'provider',
  'provider_intent_id',
  'provider_charge_id',
  'provider_refund_id',
  'closed_by',
  'amount_captured',
] as const;

/** What the ledger keeps for itself. */
const kept = [
  'version',
  'events',
  'refund_reserved',
  'amount_refunded',
  'action_expires_at',
  'next_action',
  'authorized_at',
  'hold_expires_at',
  'due_at',
  'traceparent',
] as const;

/** A column of `ledger.transactions`. */
export type Column = (typeof transactionColumns)[number];

/** All of them, in the order of the tables. */
export const transactionColumns = [...asked, ...amount, ...ended, ...kept] as const;

/** By what may become of them. */
export const columnGroups = { asked, amount, ended, kept } as const;

/** What only another kind of transaction has, or nobody who reads a payment needs. */
const notOfPayments = [
  'payment_id',
  'requested_amount',
  'provider_refund_id',
  'refund_reserved',
  'hold_expires_at',
  'due_at',
  'traceparent',
] as const satisfies readonly Column[];

const notOfFollowUps = [
  'payment_method',
  'reference',
  'events',
  'refund_reserved',
  'amount_refunded',
  'action_expires_at',
  'next_action',
  'authorized_at',
  'hold_expires_at',
  'closed_by',
  'amount_captured',
  'due_at',
  'traceparent',
] as const satisfies readonly Column[];

/** What a payment is read from. */
export type PaymentColumn = Exclude<Column, (typeof notOfPayments)[number]>;
/** What a refund, capture or cancellation is read from, its charge being its payment's. */
export type FollowUpColumn = Exclude<Column, (typeof notOfFollowUps)[number]>;

/** The columns of a payment. */
const paymentColumns: readonly Column[] = without(notOfPayments);
/** The columns of a refund. */
const followUpColumns: readonly Column[] = without(notOfFollowUps);

/** A refund's charge is its payment's. */
const ofItsPayment: readonly Column[] = ['provider', 'provider_intent_id', 'provider_charge_id'];

/**
 * The lists of columns in the statements of PostgreSQL: `alias.:payment`, and `alias.:followUp`
 * where what follows a payment is joined to it as `payment`.
 */
export const columnLists = {
  payment: (alias: string) => paymentColumns.map((column) => inHex(alias, column)).join(', '),
  followUp: (alias: string) =>
    followUpColumns
      .map((column) => inHex(ofItsPayment.includes(column) ? 'payment' : alias, column))
      .join(', '),
} as const;

function inHex(alias: string, column: Column): string {
  const inRow = `${alias}.${column}`;
  return column === 'fingerprint' ? `encode(${inRow}, 'hex') AS ${column}` : inRow;
}

/**
 * The fields that share the column `details`, as JSON text: the ledger does not compute with them,
 * nor does anybody look for a transaction by them. A new one of these needs no change of a table.
 */
export const detailFields = {
  payment: ['returnUrl', 'captureMethod', 'description', 'metadata'],
  followUp: ['reason'],
} as const;

function without(others: readonly Column[]): readonly Column[] {
  return transactionColumns.filter((column) => !others.includes(column));
}
