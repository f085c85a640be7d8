import {
  newId,
  type ChargeRecord,
  type PaymentIntentRecord,
  type RefundRecord,
} from '../records.ts';
import type { Account } from '../store/account.ts';
import type { Change } from '../store/journal.ts';
import { testMethodOf } from '../test-payment-methods.ts';
import { invalidRequest, resourceMissing } from '../wire/errors.ts';
import {
  mergeMetadata,
  metadata,
  oneOf,
  readParams,
  refuse,
  text,
  texts,
  type Read,
  type ValuesOf,
} from '../wire/params.ts';
import { readExpand, renderExpanded } from '../render/records.ts';
import { findIntent, unexpectedState } from './intent-params.ts';
import { checkPart, wholeAmount } from './money.ts';
import { happened, ok, type Call, type Operation, type Result, type World } from './operation.ts';

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
  prepare(world, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const intent = readTarget(world, read.value);
    if (intent.outcome === 'refused') return intent;
    const part = checkPart(read.value.amount, intent.value, 'amount');
    if (part.outcome === 'refused') return part;
    const expand = readExpand('refund', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const wish = { values: read.value, intent: intent.value.id, expand: expand.value };
    return { outcome: 'ready', run: () => refund(world, call, wish) };
  },
};

type Wish = { values: Values; intent: string; expand: readonly string[][] };

function readTarget(
  world: World,
  { charge: id, payment_intent }: Values,
): Read<PaymentIntentRecord> {
  if (id === undefined && payment_intent === undefined) {
    const message =
      'One of the following params should be provided for this request: payment_intent or charge.';
    return refuse(invalidRequest(message, { code: 'parameter_missing' }));
  }
  const charge = id === undefined ? undefined : world.account.charges.get(id);
  if (id !== undefined && charge === undefined) {
    return refuse(resourceMissing({ kind: 'charge', id, param: 'charge' }));
  }
  return findIntent(world, payment_intent ?? charge!.paymentIntent, 'payment_intent');
}

/**
 * "You can't refund a total greater than the original charge amount", of which what was let go
 * when it was captured counts as refunded: https://docs.stripe.com/refunds
 */
function refund(world: World, call: Call, { values, intent: id, expand }: Wish): Result {
  const intent = world.account.paymentIntents.get(id)!;
  const charge = world.account.chargesOf(id).find(({ captured }) => captured);
  if (charge === undefined) {
    const message = `This PaymentIntent (${id}) does not have a successful charge to refund.`;
    return { answer: () => unexpectedState(intent, message) };
  }
  if (world.account.disputesOf(charge.id).some(({ status }) => status !== 'won')) {
    const message = `Charge ${charge.id} has been charged back; cannot issue a refund.`;
    return { answer: () => invalidRequest(message, { code: 'charge_disputed' }) };
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
  const when = { at: world.now(), request: call.request };
  const made = newRefund(charge, {
    values,
    amount,
    at: when.at,
    settleAfterMs: world.settleAfterMs(),
  });
  const charged = { ...charge, amountRefunded: charge.amountRefunded + amount };
  const events = [
    happened('refund.created', made, when),
    happened('charge.refunded', charged, when),
  ];
  return {
    change: { charges: [charged], refunds: [made], events },
    answer: () => ok(renderExpanded(world.account, made, expand)),
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
    gives: 'captured',
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

/**
 * Ends a refund that was on its way. One that fails gives its amount back to the charge:
 * https://docs.stripe.com/refunds#failed-refunds
 */
export function settleRefund(account: Account, refund: RefundRecord, at: number): Change {
  const charge = account.charges.get(refund.charge);
  if (charge === undefined || refund.settlement === null) {
    throw new Error(`refund ${refund.id} has nothing to settle`);
  }
  const when = { at, request: null };
  if (refund.settlement.to === 'succeeded') {
    const done: RefundRecord = { ...refund, status: 'succeeded', settlement: null };
    const events = [
      happened('refund.updated', done, when),
      happened('charge.refund.updated', done, when),
    ];
    return { refunds: [done], events };
  }
  const failed: RefundRecord = {
    ...refund,
    status: 'failed',
    settlement: null,
    failureReason: 'expired_or_canceled_card',
  };
  const restored = { ...charge, amountRefunded: charge.amountRefunded - refund.amount };
  const events = [
    happened('refund.failed', failed, when),
    happened('refund.updated', failed, when),
    happened('charge.refund.updated', failed, when),
  ];
  return { refunds: [failed], charges: [restored], events };
}
