import {
  paymentEventOf,
  paymentEventSchema,
  renderPayment,
  type PaymentEvent,
} from '@triplock/contracts';
import {
  deriveEventId,
  paymentEntry,
  refundEntry,
  type AcceptedPayment,
  type Entry,
  type Fingerprint,
  type Payment,
  type Refund,
  type TransactionState,
  type TxnId,
} from '@triplock/payments';
import { UnpostableError, type DisputeReport, type Posting, type PostOutcome } from './ledger.ts';

// What posting and settling come to, decided once for every store.

/** What the ledger has under an id. */
export type RowState = { fingerprint: Fingerprint; state: TransactionState; version: number };

/** The first posting of each id of a batch: the one that makes the row, if none is there. */
export function firstOfEach(batch: readonly Posting[]): Map<TxnId, Posting> {
  const firsts = new Map<TxnId, Posting>();
  for (const posting of batch) {
    if (!firsts.has(posting.payment.txnId)) firsts.set(posting.payment.txnId, posting);
  }
  return firsts;
}

/** What the ledger has once a posting made its row. */
export function stateAfter({ payment, settlement }: Posting): RowState {
  const state = settlement?.result.state ?? 'pending';
  return { fingerprint: payment.fingerprint, state, version: 1 };
}

/** What a posting comes to whose id was taken. */
export function compare({ payment }: Posting, row: RowState): PostOutcome {
  if (row.fingerprint !== payment.fingerprint) {
    return { outcome: 'key-conflict', winner: row.fingerprint };
  }
  if (row.state === 'pending') return { outcome: 'unfinished', version: row.version };
  return { outcome: 'already-recorded', state: row.state };
}

/** The event of a payment that is final, with its number in the payment's order. */
export function settlementEvent(payment: Payment, sequence: number): PaymentEvent {
  const ended = payment.state === 'failed' ? 'failed' : 'succeeded';
  return paymentEventOf(payment, `${payment.kind}.${ended}`, sequence);
}

/**
 * The event of a payment whose customer has to act: of what to do only its kind, and until when.
 * Whoever has the rest can act for the customer, so its partner asks for it.
 *
 * @throws for a payment that waits for no customer: it has no such event, a bug of the caller.
 */
export function requiresActionEvent(
  payment: Payment,
  { type, withinMs, sequence }: { type: string | undefined; withinMs: number; sequence: number },
): PaymentEvent {
  const { txnId, partnerId, customer } = payment;
  if (customer === undefined) throw new Error(`payment ${txnId} waits for no customer`);
  const next_action = {
    ...(type === undefined ? {} : { type }),
    expires_at: customer.expiresAt.toISOString(),
  };
  return {
    schema: paymentEventSchema,
    event_id: deriveEventId(txnId, 'payment.requires_action'),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: txnId,
    type: 'payment.requires_action',
    timestamp: new Date(+customer.expiresAt - withinMs).toISOString(),
    sequence,
    data: { ...renderPayment(payment), next_action },
  };
}

/** The event of a payment that is disputed: as it is now, and what is wanted back. */
export function disputedEvent(
  payment: Payment,
  { disputeId, amount, reason }: DisputeReport,
  { disputedAt, sequence }: { disputedAt: Date; sequence: number },
): PaymentEvent {
  const { txnId, partnerId } = payment;
  return {
    schema: paymentEventSchema,
    event_id: deriveEventId(txnId, 'payment.disputed'),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: txnId,
    type: 'payment.disputed',
    timestamp: disputedAt.toISOString(),
    sequence,
    data: {
      ...renderPayment(payment),
      dispute: { id: disputeId, amount: Number(amount), reason },
    },
  };
}

/** A payment that is posted and settled in one step, as it will be: its event shows it so. */
export function settledPayment(
  payment: AcceptedPayment,
  { result, settledAt }: NonNullable<Posting['settlement']>,
): Payment {
  return {
    ...payment,
    state: result.state,
    version: 1,
    amountRefunded: 0n,
    settledAt,
    ...(result.state === 'failed' ? { failure: result.failure } : {}),
  };
}

/** What a payment that is final moves; nothing when it failed. */
export function paymentMovement(payment: Payment): Entry | undefined {
  const { kind, partnerId, state, details, provider } = payment;
  if (state !== 'succeeded') return undefined;
  return paymentEntry(kind, { partnerId, money: details.money, provider: provider?.name });
}

/** What a refund that is final moves back; nothing when it failed. */
export function refundMovement(refund: Refund): Entry | undefined {
  const { partnerId, state, money, provider } = refund;
  if (state !== 'succeeded' || money === undefined) return undefined;
  return refundEntry({ partnerId, money, provider: provider?.name });
}

/**
 * Refuses a text that the ledgers do not hold alike: half a surrogate pair would silently become
 * another character on the way, and PostgreSQL stores no NUL. Objects are looked through.
 *
 * @throws UnpostableError
 */
export function refuseBadTexts(values: readonly unknown[]): void {
  for (const value of values) {
    if (typeof value === 'object' && value !== null) {
      refuseBadTexts([...Object.keys(value), ...Object.values(value as Record<string, unknown>)]);
    }
    if (typeof value !== 'string') continue;
    if (!value.isWellFormed()) throw new UnpostableError('a text holds half a surrogate pair');
    if (value.includes('\0')) throw new UnpostableError('a text holds a NUL character');
  }
}
