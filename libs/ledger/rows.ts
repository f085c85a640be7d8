import type {
  AcceptedPayment,
  AcceptedFollowUp,
  Currency,
  Dispute,
  DisputeEnd,
  DisputeId,
  Fingerprint,
  FollowUpKind,
  IdempotencyKey,
  PartnerId,
  Payment,
  PaymentDetails,
  PaymentKind,
  ProviderCharge,
  ProviderName,
  FollowUp,
  FollowUpDetails,
  TransactionKind,
  TransactionState,
  TxnId,
} from '@triplock/payments';
import { type Column, detailFields, type PaymentColumn, type FollowUpColumn } from './columns.ts';

/** A row of `ledger.transactions`, as the driver of PostgreSQL gives it back. */
export type TransactionRow = {
  [Each in Column]: {
    txn_id: string;
    kind: TransactionKind;
    partner_id: string;
    idempotency_key: string;
    /** In hex. */
    fingerprint: string;
    response_version: number;
    payment_id: string | null;
    requested_amount: bigint | null;
    payment_method: string | null;
    reference: string | null;
    details: string | null;
    created_at: Date;
    amount: bigint | null;
    currency: string | null;
    state: TransactionState;
    failure_code: string | null;
    failure_message: string | null;
    settled_at: Date | null;
    provider: ProviderName | null;
    provider_intent_id: string | null;
    provider_charge_id: string | null;
    provider_refund_id: string | null;
    closed_by: string | null;
    amount_captured: bigint | null;
    version: number;
    events: number;
    refund_reserved: bigint;
    amount_refunded: bigint;
    action_expires_at: Date | null;
    next_action: string | null;
    authorized_at: Date | null;
    hold_expires_at: Date | null;
    due_at: Date | null;
    traceparent: string | null;
  }[Each];
};

type Row<Columns extends Column> = { [Each in Columns]: TransactionRow[Each] };

/** The charge that a row names; all null for a book transfer. */
export type ProviderColumns = Row<'provider' | 'provider_intent_id' | 'provider_charge_id'>;

/** A payment as transactions.sql and settle.sql give it back; it always has an amount. */
export type PaymentRow = Row<PaymentColumn> & {
  kind: PaymentKind;
  amount: bigint;
  currency: string;
};

/** A refund as transactions.sql gives it back, with the charge of its payment. */
export type FollowUpRow = Row<FollowUpColumn> & { kind: FollowUpKind; payment_id: string };

/** A dispute with its payment's provider and currency, and its end, as each store gives it back. */
export type DisputeRow = {
  id: string;
  partner_id: string;
  txn_id: string;
  dispute_id: string;
  provider: ProviderName;
  amount: bigint;
  currency: string;
  reason: string;
  created_at: Date;
  evidence_due_by: Date | null;
  ended: DisputeEnd | null;
  ended_at: Date | null;
};

/** The dispute that a row holds: open where it has no end. */
export function disputeOf(row: DisputeRow): Dispute {
  return {
    id: row.id as DisputeId,
    partnerId: row.partner_id as PartnerId,
    paymentId: row.txn_id as TxnId,
    provider: { name: row.provider, disputeId: row.dispute_id },
    money: { amount: row.amount, currency: row.currency as Currency },
    reason: row.reason,
    status: row.ended ?? 'open',
    createdAt: row.created_at,
    ...(row.evidence_due_by === null ? {} : { evidenceDueBy: row.evidence_due_by }),
    ...(row.ended_at === null ? {} : { endedAt: row.ended_at }),
  };
}

/** The payment that a row holds; fields that the request left out are left out again. */
export function paymentOf(row: PaymentRow): Payment {
  return {
    kind: row.kind,
    txnId: row.txn_id as TxnId,
    partnerId: row.partner_id as PartnerId,
    key: row.idempotency_key as IdempotencyKey,
    fingerprint: row.fingerprint as Fingerprint,
    responseVersion: row.response_version,
    acceptedAt: row.created_at,
    details: {
      money: { amount: row.amount, currency: row.currency as Currency },
      ...(row.payment_method === null ? {} : { paymentMethod: row.payment_method }),
      ...(row.reference === null ? {} : { reference: row.reference }),
      ...(detailsOf(row) as OtherPaymentDetails),
    },
    state: row.state,
    version: row.version,
    amountRefunded: row.amount_refunded,
    settledAt: row.settled_at,
    ...customerOf(row),
    ...authorizationOf(row),
    ...failureOf(row),
    ...(row.provider === null ? {} : { chargedBy: row.provider }),
    ...providerOf(row),
  };
}

/** The refund that a row holds; fields that the request left out are left out again. */
export function followUpOf(row: FollowUpRow): FollowUp {
  const { amount, currency, provider_refund_id: refundId } = row;
  const { provider } = providerOf(row);
  return {
    kind: row.kind,
    txnId: row.txn_id as TxnId,
    partnerId: row.partner_id as PartnerId,
    key: row.idempotency_key as IdempotencyKey,
    fingerprint: row.fingerprint as Fingerprint,
    responseVersion: row.response_version,
    acceptedAt: row.created_at,
    paymentId: row.payment_id as TxnId,
    details: {
      ...(row.requested_amount === null ? {} : { amount: row.requested_amount }),
      ...(detailsOf(row) as OtherFollowUpDetails),
    },
    state: row.state,
    version: row.version,
    ...(amount === null || currency === null
      ? {}
      : { money: { amount, currency: currency as Currency } }),
    settledAt: row.settled_at,
    ...failureOf(row),
    ...(provider === undefined
      ? {}
      : { provider: { ...provider, ...(refundId === null ? {} : { refundId }) } }),
  };
}

type OtherPaymentDetails = Pick<PaymentDetails, (typeof detailFields.payment)[number]>;
type OtherFollowUpDetails = Pick<FollowUpDetails, (typeof detailFields.followUp)[number]>;

/** What a payment's column `details` holds, before it is text; null when none of it was sent. */
export function otherDetails({ details }: AcceptedPayment): OtherPaymentDetails | null {
  return sentOf(details, detailFields.payment);
}

/** The same of a refund. */
export function otherFollowUpDetails({ details }: AcceptedFollowUp): OtherFollowUpDetails | null {
  return sentOf(details, detailFields.followUp);
}

function sentOf<Details, Name extends keyof Details>(
  details: Details,
  names: readonly Name[],
): Pick<Details, Name> | null {
  let sent: Partial<Pick<Details, Name>> | null = null;
  for (const name of names) {
    if (details[name] === undefined) continue;
    sent ??= {};
    sent[name] = details[name];
  }
  return sent as Pick<Details, Name> | null;
}

/** The column `details` itself. */
export function detailsText(details: object | null): string | null {
  return details && JSON.stringify(details);
}

/**
 * A row that is there and makes no sense: written past the checks, or damaged on a disk. Looking
 * again will not help, and it says nothing about the rows beside it.
 */
export class UnreadableRowError extends Error {
  override name = 'UnreadableRowError';
}

/**
 * Whether it is this very row that cannot be read: it makes no sense here, or the server finds it
 * damaged (SQLSTATE class XX, such as data_corrupted) or wrongly encoded (class 22).
 */
export function isUnreadable(error: unknown): boolean {
  if (error instanceof UnreadableRowError) return true;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^(XX|22)[0-9A-Z]{3}$/.test(code);
}

/** @throws UnreadableRowError */
function detailsOf({ txn_id: txnId, details }: { txn_id: string; details: string | null }): object {
  if (details === null) return {};
  try {
    return JSON.parse(details) as object;
  } catch (cause) {
    throw new UnreadableRowError(`the details of transaction ${txnId} are no JSON`, { cause });
  }
}

/** Why it failed, or nothing. */
function failureOf(row: {
  failure_code: string | null;
  failure_message: string | null;
}): Pick<Payment, 'failure'> {
  if (row.failure_code === null) return {};
  return { failure: { code: row.failure_code, message: row.failure_message ?? '' } };
}

/** Who has to act, or nothing. */
function customerOf(row: Row<'action_expires_at' | 'next_action'>): Pick<Payment, 'customer'> {
  const { action_expires_at: expiresAt, next_action: nextAction } = row;
  if (expiresAt === null) return {};
  return { customer: { expiresAt, ...(nextAction === null ? {} : { nextAction }) } };
}

/** What became of an authorisation, or nothing where there was none. */
function authorizationOf(
  row: Row<'authorized_at' | 'closed_by' | 'amount_captured'>,
): Pick<Payment, 'authorizedAt' | 'closedBy' | 'amountCaptured'> {
  const { authorized_at: authorizedAt, closed_by: closedBy, amount_captured: captured } = row;
  return {
    ...(authorizedAt === null ? {} : { authorizedAt }),
    ...(closedBy === null ? {} : { closedBy: closedBy as TxnId }),
    ...(captured === null ? {} : { amountCaptured: captured }),
  };
}

/** The provider's side, or nothing as long as no intent is stored. */
function providerOf(row: ProviderColumns): { provider?: ProviderCharge } {
  const { provider: name, provider_intent_id: intentId, provider_charge_id: chargeId } = row;
  if (name === null || intentId === null) return {};
  return { provider: { name, intentId, ...(chargeId === null ? {} : { chargeId }) } };
}
