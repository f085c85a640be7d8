import {
  paymentEventOf,
  paymentEventSchema,
  renderPayment,
  type PaymentEvent,
} from '@triplock/contracts';
import {
  eventIdOf,
  kinds,
  type AcceptedPayment,
  type Entry,
  type Failure,
  type Fingerprint,
  type JsonObject,
  type Payment,
  type FollowUp,
  type Settlement,
  type TransactionState,
  type TxnId,
} from '@triplock/payments';
import { UnpostableError, type DisputeReport, type Posting, type PostOutcome } from './ledger.ts';

// What posting and settling come to, decided once for every store.

/** What the ledger has under an id. */
export type RowState = { fingerprint: Fingerprint; state: TransactionState; version: number };

/** The first of each id in a batch: of postings the one that makes the row, if none is there. */
export function firstOfEach<Item>(
  batch: readonly Item[],
  idOf: (item: Item) => TxnId,
): Map<TxnId, Item> {
  const firsts = new Map<TxnId, Item>();
  for (const item of batch) {
    const id = idOf(item);
    if (!firsts.has(id)) firsts.set(id, item);
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
  const { kind, txnId, state } = payment;
  if (state === 'pending') throw new Error(`payment ${txnId} is not settled`);
  const type = kinds[kind].ends[state];
  if (type === undefined) throw new Error(`no ${kind} ends ${state}, as ${txnId} did`);
  return paymentEventOf(payment, type, sequence);
}

/**
 * The event of a payment that is authorised, and waits for its capture or cancellation.
 *
 * @throws for one that is not: it has no such event, a bug of the caller.
 */
export function authorizedEvent(payment: Payment, sequence: number): PaymentEvent {
  const { txnId, authorizedAt } = payment;
  if (authorizedAt === undefined) throw new Error(`payment ${txnId} is not authorised`);
  return stepEvent(payment, { type: 'payment.authorized', at: authorizedAt, sequence });
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
  const { txnId, customer } = payment;
  if (customer === undefined) throw new Error(`payment ${txnId} waits for no customer`);
  const next_action = {
    ...(type === undefined ? {} : { type }),
    expires_at: customer.expiresAt.toISOString(),
  };
  const at = new Date(+customer.expiresAt - withinMs);
  const shown = { next_action };
  return stepEvent(payment, { type: 'payment.requires_action', at, sequence, shown });
}

/**
 * The event of a payment that is disputed: as it is now, and what is wanted back; one per dispute.
 */
export function disputedEvent(
  payment: Payment,
  { disputeId, amount, reason }: DisputeReport,
  { disputedAt, sequence }: { disputedAt: Date; sequence: number },
): PaymentEvent {
  const shown = { dispute: { id: disputeId, amount: Number(amount), reason } };
  return stepEvent(payment, { type: 'payment.disputed', at: disputedAt, sequence, shown });
}

/** What is told of a payment beside its end: the payment as it is then, and more of it. */
type Step = {
  type: 'payment.authorized' | 'payment.requires_action' | 'payment.disputed';
  at: Date;
  sequence: number;
  shown?: JsonObject;
};

function stepEvent(payment: Payment, { type, at, sequence, shown }: Step): PaymentEvent {
  const { txnId, partnerId } = payment;
  const data = { ...renderPayment(payment), ...shown, id: txnId };
  return {
    schema: paymentEventSchema,
    event_id: eventIdOf(type, data),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: txnId,
    type,
    timestamp: at.toISOString(),
    sequence,
    data,
  };
}

/** Why a transaction ended without its money; nothing when it did not. */
export function failureIn(result: Settlement): Failure | undefined {
  return 'failure' in result ? result.failure : undefined;
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
    ...('failure' in result && { failure: result.failure }),
  };
}

/** What a payment that is final moves; nothing when it failed, or its capture moves it. */
export function paymentMovement(payment: Payment): Entry | undefined {
  const { kind, partnerId, state, details, provider } = payment;
  if (state !== 'succeeded') return undefined;
  return kinds[kind].entryOf({ partnerId, money: details.money, provider: provider?.name });
}

/** What a follow-up that is final moves; nothing when it failed. */
export function followUpMovement(followUp: FollowUp): Entry | undefined {
  const { kind, partnerId, state, money, provider } = followUp;
  if (state !== 'succeeded' || money === undefined) return undefined;
  return kinds[kind].entryOf({ partnerId, money, provider: provider?.name });
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

/**
 * Refuses an end with a text that no ledger holds; `providerId` is what the provider calls it.
 *
 * @throws UnpostableError
 */
export function refuseBadEnd(
  result: Settlement,
  ...providersIds: readonly (string | undefined)[]
): void {
  const failure = failureIn(result);
  refuseBadTexts([failure?.code, failure?.message, ...providersIds]);
}
