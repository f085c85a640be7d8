import { newId } from '../records/new-id.ts';
import type { PaymentIntentRecord, PaymentMethodRecord } from '../records/records.ts';
import { currency, mergeMetadata } from '../wire/param-kinds.ts';
import {
  readParams,
  refuse,
  required,
  took,
  type Read,
  type ValuesOf,
} from '../wire/read-params.ts';
import { invalidRequest } from '../wire/stripe-error.ts';
import { attemptPayment } from './attempt-payment.ts';
import { readExpand, renderExpanded } from './expand-object.ts';
import { checkMethodFits, findPaymentMethod } from './find-payment-method.ts';
import { attemptAnswer, missingMethod, unexpectedState } from './intent-answers.ts';
import {
  automaticTypes,
  checkAmount,
  checkReturnUrl,
  intentParams,
  wholeAmount,
} from './intent-params.ts';
import { redirectOf } from './redirect-of.ts';
import { happened, ok, type Call, type Desk, type Operation, type Result } from './operation.ts';

const params = { ...intentParams, amount: required(wholeAmount), currency: required(currency) };
type Values = ValuesOf<typeof params>;

/** https://docs.stripe.com/api/payment_intents/create */
export const createPaymentIntent: Operation = {
  name: 'payment_intents.create',
  method: 'POST',
  path: '/v1/payment_intents',
  prepare(desk, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const order = readOrder(desk, read.value);
    if (order.outcome === 'refused') return order;
    return { outcome: 'ready', run: () => create(desk, call, order.value) };
  },
};

/** A request that holds together. */
type Order = {
  readonly values: Values;
  readonly automatic: PaymentIntentRecord['automatic'];
  readonly types: readonly string[];
  readonly method: PaymentMethodRecord | undefined;
  readonly returnUrl: string | null;
  readonly expand: readonly string[][];
};

function readOrder(desk: Desk, values: Values): Read<Order> {
  const amount = checkAmount(values.amount, values.currency);
  if (amount.outcome === 'refused') return amount;
  const ways = readWays(values);
  if (ways.outcome === 'refused') return ways;
  const { automatic, types } = ways.value;
  const method = readMethod(desk, values, types);
  if (method.outcome === 'refused') return method;
  const returnUrl = values.confirm
    ? checkReturnUrl(automatic, values.return_url)
    : took(values.return_url ?? null);
  if (returnUrl.outcome === 'refused') return returnUrl;
  const expand = readExpand('payment_intent', values.expand);
  if (expand.outcome === 'refused') return expand;
  return took({
    ...{ values, automatic, types, method: method.value },
    ...{ returnUrl: returnUrl.value, expand: expand.value },
  });
}

/**
 * Without `payment_method_types` an intent takes what the account has enabled, redirects included.
 */
function readWays(values: Values): Read<Pick<Order, 'automatic' | 'types'>> {
  const wish = values.automatic_payment_methods;
  const named = values.payment_method_types;
  if (named === undefined) {
    const allowRedirects = wish?.enabled ? (wish.allow_redirects ?? 'always') : 'always';
    return took({ automatic: { allowRedirects }, types: automaticTypes });
  }
  if (wish?.enabled) {
    const message = 'You may only specify one of: payment_method_types, automatic_payment_methods.';
    return refuse(invalidRequest(message, { param: 'payment_method_types' }));
  }
  const known: readonly string[] = automaticTypes;
  const stranger = named.find((type) => !known.includes(type));
  if (stranger === undefined && named.length > 0) return took({ automatic: null, types: named });
  const message = `The payment method type "${stranger ?? ''}" is invalid.`;
  return refuse(invalidRequest(message, { param: 'payment_method_types' }));
}

function readMethod(desk: Desk, values: Values, types: readonly string[]) {
  if (values.payment_method === undefined) return took(undefined);
  const found = findPaymentMethod(desk, values.payment_method);
  if (found.outcome === 'refused') return found;
  return checkMethodFits(found.value, { paymentMethodTypes: types, currency: values.currency });
}

function create(desk: Desk, call: Call, order: Order): Result {
  const { values, method, expand } = order;
  const when = { at: desk.now(), request: call.request };
  const intent = newIntent(order, when.at);
  const created = happened('payment_intent.created', intent, when);
  const paymentMethods = method ? [method] : [];
  const asItIs = { paymentIntents: [intent], paymentMethods, events: [created] };
  if (!values.confirm) {
    return { change: asItIs, answer: () => ok(renderExpanded(desk.account, intent, expand)) };
  }
  if (method === undefined) {
    return { change: asItIs, answer: () => unexpectedState(intent, missingMethod) };
  }
  const attempted = attemptPayment({
    ...{
      intent,
      method,
      ...when,
      redirect: redirectOf(desk, intent.id, order.returnUrl),
      authenticated: false,
    },
    settleAfterMs: desk.settleAfterMs(),
    unattended: values.off_session === true || values.error_on_requires_action === true,
  });
  const change = { ...attempted.change, events: [created, ...(attempted.change.events ?? [])] };
  return { change, answer: () => attemptAnswer(desk, attempted, expand) };
}

function newIntent({ values, automatic, types, method }: Order, at: number): PaymentIntentRecord {
  const id = newId('pi_');
  return {
    kind: 'payment_intent',
    id,
    created: at,
    clientSecret: newId(`${id}_secret_`),
    amount: values.amount,
    amountReceived: 0,
    currency: values.currency,
    captureMethod: values.capture_method ?? 'automatic_async',
    status: method ? 'requires_confirmation' : 'requires_payment_method',
    metadata: mergeMetadata({}, values.metadata),
    description: values.description ?? null,
    receiptEmail: values.receipt_email ?? null,
    statementDescriptorSuffix: values.statement_descriptor_suffix ?? null,
    transferGroup: values.transfer_group ?? null,
    automatic,
    paymentMethodTypes: types,
    paymentMethod: method?.id ?? null,
    ...{ latestCharge: null, lastFailure: null, action: null, settlement: null },
    ...{ canceledAt: null, cancellationReason: null },
  };
}
