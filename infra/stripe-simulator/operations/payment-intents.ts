import { newId, type PaymentIntentRecord, type PaymentMethodRecord } from '../records.ts';
import { invalidRequest } from '../wire/errors.ts';
import {
  mergeMetadata,
  readParams,
  refuse,
  required,
  texts,
  took,
  type Read,
  type ValuesOf,
} from '../wire/params.ts';
import { readExpand, renderExpanded } from '../render/records.ts';
import {
  automaticTypes,
  checkMethodFits,
  checkReturnUrl,
  describingParams,
  findIntent,
  findPaymentMethod,
  intentParams,
  missingMethod,
  redirectOf,
  unexpectedState,
} from './intent-params.ts';
import { checkAmount, currency, wholeAmount } from './money.ts';
import { happened, ok, type Call, type Operation, type Result, type World } from './operation.ts';
import { attemptAnswer, attemptPayment } from './payment-attempts.ts';

const createParams = {
  ...intentParams,
  amount: required(wholeAmount),
  currency: required(currency),
};
type Values = ValuesOf<typeof createParams>;

/** https://docs.stripe.com/api/payment_intents/create */
export const createPaymentIntent: Operation = {
  name: 'payment_intents.create',
  method: 'POST',
  path: '/v1/payment_intents',
  prepare(world, call) {
    const read = readParams(call.params, createParams);
    if (read.outcome === 'refused') return read;
    const order = readOrder(world, read.value);
    if (order.outcome === 'refused') return order;
    return { outcome: 'ready', run: () => create(world, call, order.value) };
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

function readOrder(world: World, values: Values): Read<Order> {
  const amount = checkAmount(values.amount, values.currency);
  if (amount.outcome === 'refused') return amount;
  const ways = readWays(values);
  if (ways.outcome === 'refused') return ways;
  const { automatic, types } = ways.value;
  const method = readMethod(world, values, types);
  if (method.outcome === 'refused') return method;
  const returnUrl = values.confirm
    ? checkReturnUrl(automatic, values.return_url)
    : took(values.return_url ?? null);
  if (returnUrl.outcome === 'refused') return returnUrl;
  const expand = readExpand('payment_intent', values.expand);
  if (expand.outcome === 'refused') return expand;
  return took({
    values,
    automatic,
    types,
    method: method.value,
    returnUrl: returnUrl.value,
    expand: expand.value,
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

function readMethod(world: World, values: Values, types: readonly string[]) {
  if (values.payment_method === undefined) return took(undefined);
  const found = findPaymentMethod(world, values.payment_method);
  if (found.outcome === 'refused') return found;
  const { currency, capture_method: captureMethod } = values;
  return checkMethodFits(found.value, { paymentMethodTypes: types, currency, captureMethod });
}

function create(world: World, call: Call, order: Order): Result {
  const { values, method, expand } = order;
  const when = { at: world.now(), request: call.request };
  const intent = newIntent(order, when.at);
  const created = happened('payment_intent.created', intent, when);
  const paymentMethods = method ? [method] : [];
  const asItIs = { paymentIntents: [intent], paymentMethods, events: [created] };
  if (!values.confirm) {
    return { change: asItIs, answer: () => ok(renderExpanded(world.account, intent, expand)) };
  }
  if (method === undefined) {
    return { change: asItIs, answer: () => unexpectedState(intent, missingMethod) };
  }
  const attempted = attemptPayment({
    intent,
    method,
    ...when,
    redirect: redirectOf(world, intent.id, order.returnUrl),
    authenticated: false,
    settleAfterMs: world.settleAfterMs(),
    authorizedForMs: world.authorizedForMs(),
    unattended: values.off_session === true || values.error_on_requires_action === true,
  });
  const change = { ...attempted.change, events: [created, ...(attempted.change.events ?? [])] };
  return { change, answer: () => attemptAnswer(world, attempted, expand) };
}

function newIntent({ values, automatic, types, method }: Order, at: number): PaymentIntentRecord {
  const id = newId('pi_');
  return {
    kind: 'payment_intent',
    id,
    created: at,
    clientSecret: newId(`${id}_secret_`),
    amount: values.amount,
    amountCapturable: 0,
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
    latestCharge: null,
    lastFailure: null,
    action: null,
    settlement: null,
    captureBefore: null,
    canceledAt: null,
    cancellationReason: null,
  };
}

const updateParams = { ...describingParams, expand: texts };

/**
 * https://docs.stripe.com/api/payment_intents/update, for what describes an intent: in any state.
 * Amount, currency and payment method are refused as unknown, since changing them is not simulated.
 */
export const updatePaymentIntent: Operation = {
  name: 'payment_intents.update',
  method: 'POST',
  path: '/v1/payment_intents/:id',
  prepare(world, call) {
    const read = readParams(call.params, updateParams);
    if (read.outcome === 'refused') return read;
    const { metadata, description, transfer_group, statement_descriptor_suffix } = read.value;
    const found = findIntent(world, call.id);
    if (found.outcome === 'refused') return found;
    const expand = readExpand('payment_intent', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const run = () => {
      const before = world.account.paymentIntents.get(call.id)!;
      const intent: PaymentIntentRecord = {
        ...before,
        metadata: mergeMetadata(before.metadata, metadata),
        description: description ?? before.description,
        transferGroup: transfer_group ?? before.transferGroup,
        statementDescriptorSuffix: statement_descriptor_suffix ?? before.statementDescriptorSuffix,
      };
      const answer = () => ok(renderExpanded(world.account, intent, expand.value));
      return { change: { paymentIntents: [intent] }, answer };
    };
    return { outcome: 'ready', run };
  },
};
