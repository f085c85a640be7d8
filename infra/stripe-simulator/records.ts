import { randomBytes } from 'node:crypto';

/** Times in records are milliseconds of the simulator's clock; on the wire they are seconds. */
export type Metadata = Readonly<Record<string, string>>;

/** https://docs.stripe.com/payments/paymentintents/lifecycle */
export type IntentStatus =
  | 'requires_payment_method'
  | 'requires_confirmation'
  | 'requires_action'
  | 'processing'
  | 'requires_capture'
  | 'succeeded'
  | 'canceled';

/** Why an attempt failed, as in `last_payment_error` and the 402. */
export type PaymentFailure = {
  readonly code: string;
  readonly declineCode?: string;
  readonly message: string;
};

/** A payment method made from one of Stripe's test methods, whose name decides how it behaves. */
export type PaymentMethodRecord = {
  readonly kind: 'payment_method';
  readonly id: string;
  readonly created: number;
  readonly testMethod: string;
};

/**
 * The customer's authentication that an intent waits for; `then` is what the charge does after it.
 */
export type PendingAction = {
  readonly redirect: Redirect | null;
  readonly then: 'succeed' | 'decline';
};

/** Where the customer is sent to authenticate, and where they come back to. */
export type Redirect = { readonly url: string; readonly returnUrl: string };

/** How a payment in `processing` will end; `at` is null for the one that stays so for ever. */
export type PendingSettlement = { readonly at: number | null; readonly failure?: PaymentFailure };

/** Records are never changed, only replaced: an event keeps the one of its moment. */
export type PaymentIntentRecord = {
  readonly kind: 'payment_intent';
  readonly id: string;
  readonly created: number;
  readonly clientSecret: string;
  readonly amount: number;
  /** What an authorisation holds and nobody has captured yet. */
  readonly amountCapturable: number;
  readonly amountReceived: number;
  readonly currency: string;
  readonly captureMethod: 'automatic' | 'automatic_async' | 'manual';
  readonly status: IntentStatus;
  readonly metadata: Metadata;
  readonly description: string | null;
  readonly receiptEmail: string | null;
  readonly statementDescriptorSuffix: string | null;
  readonly transferGroup: string | null;
  /** Null when the request named its payment method types itself. */
  readonly automatic: { readonly allowRedirects: 'always' | 'never' } | null;
  readonly paymentMethodTypes: readonly string[];
  readonly paymentMethod: string | null;
  readonly latestCharge: string | null;
  readonly lastFailure: LastFailure | null;
  readonly action: PendingAction | null;
  readonly settlement: PendingSettlement | null;
  /** When the authorisation expires; null where nothing waits to be captured. */
  readonly captureBefore: number | null;
  readonly canceledAt: number | null;
  readonly cancellationReason: string | null;
};

/** What the last failed attempt left behind. */
export type LastFailure = PaymentFailure & {
  readonly charge: string | null;
  readonly paymentMethod: PaymentMethodRecord;
};

/** One attempt that reached the card network or the bank. */
export type ChargeRecord = {
  readonly kind: 'charge';
  readonly id: string;
  readonly created: number;
  readonly amount: number;
  /** What was taken; less than `amount` where an authorisation was captured in part. */
  readonly amountCaptured: number;
  /** What was given back, and what of an authorisation was let go without being taken. */
  readonly amountRefunded: number;
  readonly currency: string;
  /** An authorisation is `succeeded` too; `captured` tells whether its money was taken. */
  readonly status: 'succeeded' | 'pending' | 'failed';
  readonly captured: boolean;
  /** When an authorisation expires, also once it was captured; null where there was none. */
  readonly captureBefore: number | null;
  readonly disputed: boolean;
  readonly failure: PaymentFailure | null;
  readonly metadata: Metadata;
  readonly description: string | null;
  readonly receiptEmail: string | null;
  readonly statementDescriptorSuffix: string | null;
  readonly transferGroup: string | null;
  readonly paymentIntent: string;
  readonly paymentMethod: PaymentMethodRecord;
};

/** Money given back, or the rest of an authorisation that was let go: no money moved for that. */
export type RefundRecord = {
  readonly kind: 'refund';
  readonly gives: 'captured' | 'held';
  readonly id: string;
  readonly created: number;
  readonly amount: number;
  readonly currency: string;
  readonly charge: string;
  readonly paymentIntent: string;
  readonly reason: string | null;
  readonly metadata: Metadata;
  readonly status: 'pending' | 'succeeded' | 'failed';
  readonly failureReason: string | null;
  /** What becomes of it later, and when; null once it stays as it is. */
  readonly settlement: { readonly at: number; readonly to: 'succeeded' | 'failed' } | null;
};

/** The customer has asked their bank for the money back: https://docs.stripe.com/disputes */
export type DisputeRecord = {
  readonly kind: 'dispute';
  readonly id: string;
  readonly created: number;
  readonly amount: number;
  readonly currency: string;
  readonly charge: string;
  readonly paymentIntent: string;
  readonly reason: DisputeReason;
  readonly status: 'needs_response' | 'won' | 'lost';
  readonly closedAt: number | null;
};

export const disputeReasons = [
  'fraudulent',
  'product_not_received',
  'duplicate',
  'general',
] as const;
export type DisputeReason = (typeof disputeReasons)[number];

/** A record that an event or an expanded field can show. */
export type ShownRecord = PaymentIntentRecord | ChargeRecord | RefundRecord | DisputeRecord;

/** One movement of the account's balance. It follows from the other records: no step holds one. */
export type BalanceTransactionRecord = {
  readonly kind: 'balance_transaction';
  readonly id: string;
  readonly created: number;
  /** Negative for what left the account. */
  readonly amount: number;
  readonly currency: string;
  readonly type: 'charge' | 'refund' | 'refund_failure' | 'adjustment';
  readonly reportingCategory: string;
  /** The charge, refund or dispute that caused it. */
  readonly source: string;
};

export type EventRecord = {
  readonly kind: 'event';
  readonly id: string;
  readonly created: number;
  readonly type: string;
  readonly object: ShownRecord;
  /** The request that caused it; null for what happened later by itself. */
  readonly request: { readonly id: string; readonly idempotencyKey: string | null } | null;
};

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * An id in Stripe's form: a prefix for the kind, then letters and digits that cannot be guessed.
 */
export function newId(prefix: string, length = 24): string {
  let id = prefix;
  while (id.length < prefix.length + length) {
    for (const byte of randomBytes(length)) {
      // Bytes beyond the last whole alphabet would favour its first letters.
      if (byte < 248 && id.length < prefix.length + length) id += alphabet[byte % 62];
    }
  }
  return id;
}
