import { Counter, Trend } from 'k6/metrics';

/**
 * What a partner knows after a run. The runner compares it with what the system says of itself, so
 * each counts single requests or keys, and none is an estimate.
 */
export const tallies = {
  /** Keys for which a payment was asked, each once however often it was sent. */
  asked: new Counter('payments_asked'),
  /** Keys for which a 202 came, and their amounts in minor units. */
  accepted: new Counter('payments_accepted'),
  acceptedAmount: new Counter('payments_accepted_amount'),
  /** Keys that were given up without a clear answer: accepted or not, nobody here knows. */
  unknown: new Counter('payments_unknown'),
  unknownAmount: new Counter('payments_unknown_amount'),
  /** Keys that were refused for good. */
  refused: new Counter('payments_refused'),
  /** Keys whose one request got 429, where no second one was meant. */
  turnedAway: new Counter('payments_turned_away'),
  /** The same for refunds; an amount is that which was asked for. */
  refundsAsked: new Counter('refunds_asked'),
  refundsAccepted: new Counter('refunds_accepted'),
  refundsAcceptedAmount: new Counter('refunds_accepted_amount'),
  refundsUnknown: new Counter('refunds_unknown'),
  refundsUnknownAmount: new Counter('refunds_unknown_amount'),
  refundsRefused: new Counter('refunds_refused'),
  /** Requests sent although the same one was answered or on its way. */
  duplicates: new Counter('duplicates_sent'),
  /** Those that were answered by the stored answer, byte for byte, or by 409. */
  duplicatesCaught: new Counter('duplicates_caught'),
  /** Those that got a 202 of their own, with the same bytes: guard 2 must absorb them. */
  duplicatesPassed: new Counter('duplicates_passed'),
  /** Those that got no answer, or one of trouble. */
  duplicatesUnanswered: new Counter('duplicates_unanswered'),
  /** Those that were answered wrongly. Always 0. */
  duplicatesAltered: new Counter('duplicates_altered'),
  /** Requests with another body under a used key, and those that were refused by 422. */
  otherBodies: new Counter('other_bodies_sent'),
  otherBodiesRefused: new Counter('other_bodies_refused'),
  /** Answers by what they say of duplicates, as the gateways count them too. */
  replayed: new Counter('answers_replayed'),
  inFlight: new Counter('answers_in_flight'),
  reused: new Counter('answers_reused'),
  limited: new Counter('answers_limited'),
  unanswered: new Counter('requests_unanswered'),
  /** From the first request of a key to its 202, retries in between included. Milliseconds. */
  acceptMs: new Trend('accept_ms', true),
};
