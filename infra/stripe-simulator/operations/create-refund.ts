import { newId } from '../records/new-id.ts';
import type { ChargeRecord, RefundRecord } from '../records/records.ts';
import { testMethodOf } from '../records/test-method-of.ts';
import { mergeMetadata, metadata, oneOf, text, texts } from '../wire/param-kinds.ts';
import { readParams, refuse, took, type Read, type ValuesOf } from '../wire/read-params.ts';
import { invalidRequest, resourceMissing } from '../wire/stripe-error.ts';
import { readExpand, renderExpanded } from './expand-object.ts';
import { findIntent } from './find-intent.ts';
import { unexpectedState } from './intent-answers.ts';
import { wholeAmount } from './intent-params.ts';
import { happened, ok, type Call, type Desk, type Operation, type Result } from './operation.ts';

const params = {
  payment_intent: text(),
  charge: text(),
  amount: wholeAmount,
  reason: oneOf(['duplicate', 'fraudulent', 'requested_by_customer']),
  metadata,
  expand: texts,
};
type Values = ValuesOf<typeof params>;

/** https://docs.stripe.com/api/refunds/create */
export const createRefund: Operation = {
  name: 'refunds.create',
  method: 'POST',
  path: '/v1/refunds',
  prepare(desk, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const intent = readTarget(desk, read.value);
    if (intent.outcome === 'refused') return intent;
    const expand = readExpand('refund', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const wish = { values: read.value, intent: intent.value, expand: expand.value };
    return { outcome: 'ready', run: () => refund(desk, call, wish) };
  },
};

type Wish = { values: Values; intent: string; expand: readonly string[][] };

function readTarget(desk: Desk, { charge: id, payment_intent }: Values): Read<string> {
  if (id === undefined && payment_intent === undefined) {
    const message =
      'One of the following params should be provided for this request: payment_intent or charge.';
    return refuse(invalidRequest(message, { code: 'parameter_missing' }));
  }
  const charge = id === undefined ? undefined : desk.account.charges.get(id);
  if (id !== undefined && charge === undefined) {
    return refuse(resourceMissing({ kind: 'charge', id, param: 'charge' }));
  }
  const found = findIntent(desk, payment_intent ?? charge!.paymentIntent, 'payment_intent');
  return found.outcome === 'refused' ? found : took(found.value.id);
}

/**
 * "You can't refund a total greater than the original charge amount":
 * https://docs.stripe.com/refunds
 */
function refund(desk: Desk, call: Call, { values, intent: id, expand }: Wish): Result {
  const intent = desk.account.paymentIntents.get(id)!;
  const charge = desk.account.chargesOf(id).find(({ status }) => status === 'succeeded');
  if (charge === undefined) {
    const message = `This PaymentIntent (${id}) does not have a successful charge to refund.`;
    return { answer: () => unexpectedState(intent, message) };
  }
  const left = charge.amount - charge.amountRefunded;
  if (left === 0) {
    const message = `Charge ${charge.id} has already been refunded.`;
    return { answer: () => invalidRequest(message, { code: 'charge_already_refunded' }) };
  }
  const amount = values.amount ?? left;
  if (amount > left) {
    const message = `Refund amount (${amount}) is greater than unrefunded amount on charge (${left})`;
    return { answer: () => invalidRequest(message, { param: 'amount' }) };
  }
  const when = { at: desk.now(), request: call.request };
  const made = newRefund(charge, {
    values,
    amount,
    at: when.at,
    settleAfterMs: desk.settleAfterMs(),
  });
  const charged = { ...charge, amountRefunded: charge.amountRefunded + amount };
  const events = [
    happened('refund.created', made, when),
    happened('charge.refunded', charged, when),
  ];
  return {
    change: { charges: [charged], refunds: [made], events },
    answer: () => ok(renderExpanded(desk.account, made, expand)),
  };
}

/**
 * A test card for refunds makes it pend and succeed, or succeed and fail:
 * https://docs.stripe.com/testing#refunds
 */
function newRefund(
  charge: ChargeRecord,
  of: { values: Values; amount: number; at: number; settleAfterMs: number },
): RefundRecord {
  const way = testMethodOf(charge.paymentMethod).refund;
  const to = way === 'fails-later' ? 'failed' : 'succeeded';
  return {
    kind: 'refund',
    id: newId('re_'),
    created: of.at,
    amount: of.amount,
    currency: charge.currency,
    charge: charge.id,
    paymentIntent: charge.paymentIntent,
    reason: of.values.reason ?? null,
    metadata: mergeMetadata({}, of.values.metadata),
    status: way === 'pends' ? 'pending' : 'succeeded',
    failureReason: null,
    settlement: way === 'succeeds' ? null : { at: of.at + of.settleAfterMs, to },
  };
}
