import type { TxnId } from '@triplock/payments';
import { isObjectId } from '@triplock/provider';

/** How an account is named as a payment method (RFC 8905, "The 'payto' URI Scheme"). */
export const methodPrefix = 'payto://iban/';

/*
 * The bank's objects as its interface gives them. Amounts are whole cents. The id of a transfer and
 * of a refund is the end-to-end id, which whoever instructs it chooses and the bank keeps for ever:
 * so the same instruction is the same object, however late it comes again.
 */

/** ISO 20022 leaves 35 characters for an end-to-end id: a letter, and a transaction's 32 digits. */
type Letter = 'T' | 'R';

/** The end-to-end id of a payment's transfer, or of what is given back of it. */
export function endToEndId(letter: Letter, txnId: TxnId): string {
  return `${letter}${txnId.replaceAll('-', '')}`;
}

/** Whose transaction it is; nothing where others made it. */
export function transactionOf(id: string): TxnId | undefined {
  const [, ...parts] =
    /^[TR]([0-9a-f]{8})([0-9a-f]{4})(8[0-9a-f]{3})([89ab][0-9a-f]{3})([0-9a-f]{12})$/.exec(id) ??
    [];
  return parts.length === 0 ? undefined : (parts.join('-') as TxnId);
}

const transferStatuses = ['prepared', 'released', 'settled', 'returned', 'cancelled'] as const;

/** A transfer: it moves nothing before it is released; then it is settled or returned, for good. */
export type Transfer = {
  id: string;
  status: (typeof transferStatuses)[number];
  amount: number;
  currency: string;
  /** What we have written on it: whose it is. */
  reference: string;
  /** Milliseconds since 1970. */
  created_at: number;
  /** Of one that was released: the booking on the account. */
  booking?: string;
  /** ISO 20022, such as `AM04`; of one that was returned. */
  reason?: string;
};

/** What was given back of a transfer; it is booked at once. */
export type BankRefund = {
  id: string;
  transfer: string;
  amount: number;
  currency: string;
  reference: string;
  created_at: number;
};

/** Money on its way, or moved, by a transfer. */
export type Booking = {
  id: string;
  transfer: string;
  status: 'pending' | 'booked' | 'returned';
  amount: number;
  currency: string;
  reference: string;
  created_at: number;
};

const isText = (value: unknown) => typeof value === 'string' && value !== '' && value.length < 256;
const isCents = (value: unknown) => Number.isSafeInteger(value) && (value as number) > 0;
const isCurrency = (value: unknown) => typeof value === 'string' && /^[A-Z]{3}$/.test(value);
/** Milliseconds of a time that a `Date` can have. */
const isTime = (value: unknown) =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 8.64e15;

function hasOwn(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const { id, amount, currency, reference, created_at: at } = value as Record<string, unknown>;
  return (
    isObjectId(id) && isCents(amount) && isCurrency(currency) && isText(reference) && isTime(at)
  );
}

/** Whether an answer off the wire is a transfer; anything else makes no sense. */
export function isTransfer(value: unknown): value is Transfer {
  if (!hasOwn(value)) return false;
  const { status, booking, reason } = value;
  const isKnown = transferStatuses.some((each) => each === status);
  const wasReleased = ['released', 'settled', 'returned'].includes(String(status));
  return (
    isKnown && (!wasReleased || isObjectId(booking)) && (status !== 'returned' || isText(reason))
  );
}

/** The same of a refund. */
export function isRefund(value: unknown): value is BankRefund {
  return hasOwn(value) && isObjectId(value['transfer']);
}

/** The same of a booking. */
export function isBooking(value: unknown): value is Booking {
  const isKnown = (status: unknown) => ['pending', 'booked', 'returned'].includes(String(status));
  return hasOwn(value) && isObjectId(value['transfer']) && isKnown(value['status']);
}
