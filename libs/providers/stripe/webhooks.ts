import { isTxnId, type DisputeEnd, type TxnId } from '@triplock/payments';
import { isObjectId, type ProviderReport, type ReadReport } from '@triplock/provider';
import type Stripe from 'stripe';
import { fromStripe } from './currencies.ts';
import { stripePackage } from './package.ts';

/** docs.stripe.com/webhooks#replay-attacks: the tolerance of the official libraries. */
const toleranceSeconds = 300;

/**
 * Events after which an intent or a refund may have ended (docs.stripe.com/api/events/types). Those
 * of the steps before, most of them our own, are not worth a look.
 */
const finalEvents = new Set([
  'payment_intent.succeeded',
  'payment_intent.payment_failed',
  'payment_intent.canceled',
  'payment_intent.amount_capturable_updated',
  'charge.refunded',
  'charge.refund.updated',
  'refund.updated',
  'refund.failed',
]);

/** Those by which money was taken, or is held. */
const paidEvents = new Set([
  'payment_intent.succeeded',
  'payment_intent.amount_capturable_updated',
]);

/**
 * A dispute, from its beginning and its end, either of which may come first or alone
 * (docs.stripe.com/disputes/how-disputes-work). That money was withdrawn or reinstated says nothing
 * else.
 */
const disputeEvents = new Set(['charge.dispute.created', 'charge.dispute.closed']);

/** Whether an API key moves real money (docs.stripe.com/keys#obtain-api-keys). */
export type StripeMode = 'live' | 'test';

/** The mode of a secret or restricted key, which is in its name. */
export function stripeModeOf(apiKey: string): StripeMode {
  return /^[rs]k_live_/.test(apiKey) ? 'live' : 'test';
}

/**
 * Verifies a webhook over its raw bytes (docs.stripe.com/webhooks#verify-official-libraries): that
 * one of our secrets signed it, and within five minutes of now. Several secrets are for the time
 * in which one follows the other. Its content is only a hint to look: the state of an intent is
 * read from Stripe, so order and copies do not matter.
 */
export function readStripeEvent(received: {
  body: Buffer;
  signature: string | undefined;
  secrets: readonly string[];
  mode: StripeMode;
}): ReadReport {
  const { signature, mode } = received;
  if (signature === undefined) return { outcome: 'forged', detail: 'without Stripe-Signature' };
  const verified = verify({ ...received, signature });
  if (verified.outcome === 'forged') return verified;
  const { id, type, data, account, livemode } = verified.event;
  // Only an event of a connected account names one.
  if (account || livemode !== (mode === 'live')) return { outcome: 'foreign', type };
  const isDispute = disputeEvents.has(type);
  const object = data?.object ?? {};
  const intentId = isDispute || finalEvents.has(type) ? intentOf(object) : undefined;
  if (intentId === undefined || typeof id !== 'string') return { outcome: 'ignored', type };
  const dispute = isDispute ? disputeOf(object) : undefined;
  if (isDispute && dispute === undefined) return { outcome: 'ignored', type };
  const failedRefund = failedRefundOf(object);
  const paidFor = paidEvents.has(type) ? txnIdOf(object) : undefined;
  const paid = paidFor && { paid: { txnId: paidFor } };
  const more = { ...(failedRefund && { failedRefund }), ...paid, ...(dispute && { dispute }) };
  return { outcome: 'event', event: { id, type, intentId, ...more } };
}

/** What of an event is looked at; one that is genuine may still be of a form not known here. */
type Seen = Partial<Pick<Stripe.Event, 'id' | 'account' | 'livemode'>> & {
  type: string;
  data?: { object?: SeenObject };
};

/** What of an object is looked at; off the wire any of it may be of another form. */
export type SeenObject = Partial<
  Record<
    | ('id' | 'object' | 'status' | 'payment_intent' | 'metadata' | 'amount' | 'currency')
    | ('reason' | 'evidence_details'),
    unknown
  >
>;

function verify({
  body,
  signature,
  secrets,
}: {
  body: Buffer;
  signature: string;
  secrets: readonly string[];
}): { outcome: 'genuine'; event: Seen } | { outcome: 'forged'; detail: string } {
  let detail = 'there is no secret';
  for (const secret of secrets) {
    try {
      const event = stripePackage().webhooks.constructEvent(
        body,
        signature,
        secret,
        toleranceSeconds,
      );
      // Signed it may be, and is nothing that Stripe ever sends; sent again it would be the same.
      if (typeof event !== 'object' || event === null) return forged('it is no event');
      // The library looks at what is too old alone. What is signed ahead could be kept for later.
      if (secondsAhead(signature) > toleranceSeconds) return forged('it is of the future');
      return { outcome: 'genuine', event };
    } catch (error) {
      detail = (error as Error).message;
    }
  }
  return forged(detail);
}

const forged = (detail: string) => ({ outcome: 'forged', detail }) as const;

/**
 * How far ahead of this clock a webhook says that it was signed: in the last `t`, as it was read.
 */
function secondsAhead(signature: string): number {
  const at = signature.split(',').findLast((part) => part.startsWith('t='));
  return Number.parseInt(at?.slice(2) ?? '', 10) - Math.floor(Date.now() / 1_000);
}

/**
 * An intent's event is about that intent; a refund's or a charge's names it. What is not of the
 * form of an id no ledger has stored.
 */
export function intentOf(object: SeenObject): string | undefined {
  const ids = [object.payment_intent, object.id];
  return ids.find((id): id is string => isObjectId(id) && id.startsWith('pi_'));
}

/** What a dispute says, or nothing where it makes no sense. */
export function disputeOf(seen: SeenObject): ProviderReport['dispute'] {
  const { object, id, amount, currency, reason } = seen;
  const isWhole = object === 'dispute' && typeof id === 'string' && typeof reason === 'string';
  if (!isWhole || typeof currency !== 'string') return undefined;
  if (!Number.isSafeInteger(amount) || (amount as number) < 0) return undefined;
  const disputed = fromStripe({ amount: amount as number, currency });
  const evidenceDueBy = evidenceDueByOf(seen);
  const end = endOf(seen);
  return {
    disputeId: id,
    amount: disputed.amount,
    currency: disputed.currency,
    reason,
    ...(evidenceDueBy && { evidenceDueBy }),
    ...(end && { end }),
  };
}

/** Zero where the bank takes no evidence (docs.stripe.com/api/disputes/object). */
function evidenceDueByOf({ evidence_details: details }: SeenObject): Date | undefined {
  const due = (details as { due_by?: unknown } | null | undefined)?.due_by;
  const isTime = Number.isSafeInteger(due) && (due as number) > 0 && (due as number) < 4e9;
  return isTime ? new Date((due as number) * 1_000) : undefined;
}

/**
 * How a dispute ended, by its status (docs.stripe.com/api/disputes/object): an inquiry that came to
 * nothing, and what was prevented before it was one, took no money of the partner's.
 */
function endOf({ status }: SeenObject): DisputeEnd | undefined {
  if (status === 'lost') return 'lost';
  return status === 'won' || status === 'warning_closed' || status === 'prevented'
    ? 'won'
    : undefined;
}

function failedRefundOf(seen: SeenObject): ProviderReport['failedRefund'] {
  const { object, id, status } = seen;
  const failed = object === 'refund' && (status === 'failed' || status === 'canceled');
  const txnId = txnIdOf(seen);
  return failed && typeof id === 'string' && txnId ? { refundId: id, txnId } : undefined;
}

/** The transaction that an object of ours carries. */
export function txnIdOf({ metadata }: Pick<SeenObject, 'metadata'>): TxnId | undefined {
  const txnId = (metadata as { txn_id?: unknown } | null | undefined)?.txn_id;
  return typeof txnId === 'string' && isTxnId(txnId) ? txnId : undefined;
}
