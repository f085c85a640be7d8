import type { Entry, Movement } from './money.ts';
import type { FinalState } from './states.ts';
import { cancellation } from './kinds/cancellation.ts';
import { capture } from './kinds/capture.ts';
import type { KindOfFollowUp, KindOfPayment } from './kinds/kind.ts';
import { payment } from './kinds/payment.ts';
import { refund } from './kinds/refund.ts';

/*
 * The kinds of transaction there are, in one list. What each is to one of us, such as its routes or
 * its dialogue with the provider, is a file of its own there, in a record of all kinds that does
 * not compile while one is missing.
 */

const listed = {
  payment,
  refund,
  capture,
  cancellation,
} as const satisfies Readonly<Record<string, KindOfPayment | KindOfFollowUp>>;

type Listed = typeof listed;

/**
 * What an idempotency key names: the same key may be used once for a payment, once for a refund and
 * so on.
 */
export type TransactionKind = keyof Listed;

/** Those that follow a payment. */
export type FollowUpKind = {
  [Kind in TransactionKind]: Listed[Kind] extends KindOfFollowUp ? Kind : never;
}[TransactionKind];

/** The others, which bring their own money. */
export type PaymentKind = Exclude<TransactionKind, FollowUpKind>;

type EventsOf<Kind> = Kind extends { ends: infer Ends }
  ? Ends[keyof Ends] | (Kind extends { steps: readonly (infer Step)[] } ? Step : never)
  : never;

/** Every event type that leaves the ledger. */
export type EventType = EventsOf<Listed[TransactionKind]>;

/** Events of which a transaction has one at most. */
export type SingleEventType = Exclude<EventType, 'payment.key_conflict' | 'payment.disputed'>;

/** What is known of a kind, whichever it is. */
type Facts = {
  entryOf(movement: Movement): Entry | undefined;
  settlement?: 'paid' | 'given back';
  ends: Readonly<Partial<Record<FinalState, SingleEventType>>>;
  steps?: readonly EventType[];
};

/** Every kind by its name. */
export const kinds: Readonly<Record<TransactionKind, Facts>> = listed;

/** Their names, in the order of the list. */
export const transactionKinds = Object.keys(listed) as readonly TransactionKind[];
export const followUpKinds = transactionKinds.filter(isFollowUp);
export const paymentKinds = transactionKinds.filter(isPaymentKind);

/** Whether it follows a payment. */
export function isFollowUp(kind: TransactionKind): kind is FollowUpKind {
  return 'follows' in listed[kind];
}

function isPaymentKind(kind: TransactionKind): kind is PaymentKind {
  return !isFollowUp(kind);
}

/** Whether what follows a payment ends its authorisation, of which one alone is possible. */
export function closesPayment(kind: FollowUpKind): boolean {
  return listed[kind].closes;
}

/** What is told of a kind: how it ended, and what else happens to it. */
export function eventsOf(kind: TransactionKind): readonly EventType[] {
  const { ends, steps = [] } = kinds[kind];
  return [...Object.values(ends), ...steps];
}

/** What is told of all of them. */
export const eventTypes: readonly EventType[] = transactionKinds.flatMap(eventsOf);
