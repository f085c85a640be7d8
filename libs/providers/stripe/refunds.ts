import { isTxnId } from '@triplock/payments';
import type Stripe from 'stripe';
import {
  failureOf,
  isObjectId,
  type IntentQuery,
  type ListedRefund,
  type ListedRefunds,
  type RefundAtProvider,
  type RefundRequest,
  type Unknown,
} from '@triplock/provider';
import { idempotencyKeyOf, isAbout } from './client.ts';
import { fromStripe, toStripe } from './currencies.ts';
import { sortRefundError, unknownBecause } from './errors.ts';

/** A payment can have any number of partial refunds; this many are looked through. */
const listedMax = 10_000;

/** Asks for a refund; the same request again gives the same refund for 24 hours at least. */
export async function createRefund(
  stripe: Stripe,
  request: RefundRequest,
): Promise<RefundAtProvider> {
  const { intentId, money, txnId, partnerId } = request;
  const asked = toStripe(money);
  // Stripe has no such amount, so no earlier call has given it back either.
  if (asked.outcome === 'inexpressible') return { outcome: 'refused', failure: asked.failure };
  try {
    const refund = await stripe.refunds.create(
      {
        payment_intent: intentId,
        amount: asked.amount,
        metadata: { txn_id: txnId, partner_id: partnerId },
      },
      { idempotencyKey: idempotencyKeyOf(request, 'refund') },
    );
    return refundOutcome(refund, request);
  } catch (error) {
    return sortRefundError(error);
  }
}

/**
 * The refund that an earlier call made. Lists, because lists are consistent; search lags behind by
 * a minute, and by more in an outage (docs.stripe.com/search#data-freshness).
 */
export async function findRefund(
  stripe: Stripe,
  request: RefundRequest,
): Promise<RefundAtProvider | { outcome: 'none' }> {
  try {
    const refunds = await listAll(stripe, request);
    const mine = refunds.find(({ metadata }) => metadata?.['txn_id'] === request.txnId);
    if (mine !== undefined) return refundOutcome(mine, request);
    if (refunds.length < listedMax) return { outcome: 'none' };
    return tooMany(request);
  } catch (error) {
    return unknownBecause(error);
  }
}

/** Every refund of ours that an intent has; one that somebody else made gives no txn_id. */
export async function listRefunds(stripe: Stripe, intent: Intent): Promise<ListedRefunds> {
  try {
    const refunds = await listAll(stripe, intent);
    if (refunds.length >= listedMax) return tooMany(intent);
    const listed = refunds.map((refund) => listedRefund(refund, intent));
    const odd = listed.find((each) => typeof each === 'string');
    if (odd !== undefined) return nonsense(odd);
    return { outcome: 'listed', refunds: listed.filter((each) => typeof each === 'object') };
  } catch (error) {
    return unknownBecause(error);
  }
}

type Intent = Pick<IntentQuery, 'intentId' | 'money'>;

function listAll(stripe: Stripe, { intentId }: Pick<Intent, 'intentId'>): Promise<Stripe.Refund[]> {
  return stripe.refunds
    .list({ payment_intent: intentId, limit: 100 })
    .autoPagingToArray({ limit: listedMax });
}

function tooMany({ intentId }: Pick<Intent, 'intentId'>) {
  return unknownBecause(new Error(`intent ${intentId} has too many refunds to look through`));
}

/** Nothing for one that is not ours; a text says what makes no sense. */
function listedRefund(
  refund: Seen,
  { intentId, money }: Intent,
): ListedRefund | string | undefined {
  const { id: refundId, amount, currency, metadata, payment_intent: of } = refund;
  const txnId = metadata?.['txn_id'];
  if (txnId === undefined || !isTxnId(txnId)) return undefined;
  const isWhole = isObjectId(refundId) && Number.isSafeInteger(amount) && (amount as number) > 0;
  if (!isWhole || of !== intentId || currency !== money.currency.toLowerCase()) {
    return `refund ${refundId} of intent ${intentId} makes no sense`;
  }
  const ended = endOf(refund, refundId);
  if (ended.outcome === 'unknown') return `refund ${refundId} is ${refund.status}`;
  const given = fromStripe({ amount: amount as number, currency: money.currency });
  if (!given.exact) return `refund ${refundId} has a part of a minor unit`;
  const listed = { txnId, refundId, amount: given.amount };
  return ended.outcome === 'refused' ? { ...listed, failure: ended.failure } : listed;
}

/** What of a refund is looked at; an answer off the wire may have any of it missing. */
type Seen = Partial<
  Pick<
    Stripe.Refund,
    'id' | 'status' | 'amount' | 'currency' | 'metadata' | 'payment_intent' | 'failure_reason'
  >
>;

/** The state of a refund, by its own status (docs.stripe.com/api/refunds/object). */
function refundOutcome(refund: Seen, asked: IntentQuery): RefundAtProvider {
  const { id: refundId } = refund;
  const same = refund.payment_intent === asked.intentId && isAbout(refund, asked);
  if (!isObjectId(refundId) || !same) return nonsense('the provider answered with another refund');
  return endOf(refund, refundId);
}

function endOf(refund: Seen, refundId: string): RefundAtProvider {
  const { status } = refund;
  switch (status) {
    case 'succeeded':
      return { outcome: 'succeeded', refundId };
    case 'pending':
    case 'requires_action':
      return { outcome: 'waiting', refundId };
    case 'failed':
    case 'canceled': {
      const code = refund.failure_reason ?? `refund_${status}`;
      const message = 'The provider could not give the money back.';
      return { outcome: 'refused', failure: failureOf(code, message), refundId };
    }
    case null:
    case undefined:
    default:
      return nonsense(`the provider reports ${status} for ${refundId}`);
  }
}

function nonsense(message: string): Unknown {
  return unknownBecause(new Error(message));
}
