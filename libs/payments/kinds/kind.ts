import type { Entry, Movement } from '../money.ts';
import type { FinalState } from '../states.ts';

/** What is true of one kind of transaction, whoever posts, settles or tells of it. */
type Kind = {
  /** The entry that it makes when it succeeds; nothing where that moves no money. */
  entryOf(movement: Movement): Entry | undefined;
  /**
   * What it adds to its partner's day when it succeeds: to what was paid, or to what was given
   * back. A kind that says nothing is left out of settlements.
   */
  settlement?: 'paid' | 'given back';
};

/** Transactions that bring their own money and are ordered by nothing but themselves. */
export type KindOfPayment = Kind & {
  /** Each state in which it may end, and the event that tells of that. */
  ends: Readonly<Record<'succeeded' | 'failed', string> & Partial<Record<FinalState, string>>>;
  /** What else is told of it. */
  steps?: readonly string[];
};

/**
 * What may be done with a payment. Each is a transaction of its own that its payment orders, and no
 * provider is asked about it before the payment's row holds it.
 */
export type KindOfFollowUp = Kind & {
  follows: 'payment';
  ends: Readonly<Record<'succeeded' | 'failed', string>>;
  /**
   * Whether it ends an authorisation, which the first one takes as a whole; any other takes a part
   * of what was paid.
   */
  closes: boolean;
};
