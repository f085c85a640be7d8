import type { PaymentIntentRecord, PaymentMethodRecord } from '../records/records.ts';
import { readParams, took, type ValuesOf } from '../wire/read-params.ts';
import { attemptPayment } from './attempt-payment.ts';
import { readExpand } from './expand-object.ts';
import { findIntent } from './find-intent.ts';
import { checkMethodFits, findPaymentMethod } from './find-payment-method.ts';
import { attemptAnswer, missingMethod, unexpectedState } from './intent-answers.ts';
import { attemptParams, checkReturnUrl } from './intent-params.ts';
import type { Call, Desk, Operation, Result } from './operation.ts';
import { redirectOf } from './redirect-of.ts';

type Wish = {
  readonly values: ValuesOf<typeof attemptParams>;
  readonly method: PaymentMethodRecord | undefined;
  readonly returnUrl: string | null;
  readonly expand: readonly string[][];
};

/** https://docs.stripe.com/api/payment_intents/confirm */
export const confirmPaymentIntent: Operation = {
  name: 'payment_intents.confirm',
  method: 'POST',
  path: '/v1/payment_intents/:id/confirm',
  prepare(desk, call) {
    const read = readParams(call.params, attemptParams);
    if (read.outcome === 'refused') return read;
    const values = read.value;
    const found = findIntent(desk, call.id);
    if (found.outcome === 'refused') return found;
    const method = readMethod(desk, values.payment_method, found.value);
    if (method.outcome === 'refused') return method;
    const expand = readExpand('payment_intent', values.expand);
    if (expand.outcome === 'refused') return expand;
    const returnUrl = isConfirmable(found.value)
      ? checkReturnUrl(found.value.automatic, values.return_url)
      : took(null);
    if (returnUrl.outcome === 'refused') return returnUrl;
    const wish = { values, method: method.value, returnUrl: returnUrl.value, expand: expand.value };
    return { outcome: 'ready', run: () => confirm(desk, call, wish) };
  },
};

function readMethod(desk: Desk, id: string | undefined, intent: PaymentIntentRecord) {
  if (id === undefined) return took(undefined);
  const found = findPaymentMethod(desk, id);
  return found.outcome === 'refused' ? found : checkMethodFits(found.value, intent);
}

/**
 * The intent is read again here: what was confirmed a moment ago must not be confirmed once more.
 */
function confirm(desk: Desk, call: Call, wish: Wish): Result {
  const intent = desk.account.paymentIntents.get(call.id)!;
  if (!isConfirmable(intent)) {
    return { answer: () => unexpectedState(intent, refusalOf(intent)) };
  }
  const method = wish.method ?? desk.account.paymentMethods.get(intent.paymentMethod ?? '');
  if (method === undefined) return { answer: () => unexpectedState(intent, missingMethod) };
  const { values } = wish;
  const attempted = attemptPayment({
    intent: { ...intent, receiptEmail: values.receipt_email ?? intent.receiptEmail },
    ...{
      method,
      at: desk.now(),
      request: call.request,
      redirect: redirectOf(desk, intent.id, wish.returnUrl),
    },
    settleAfterMs: desk.settleAfterMs(),
    unattended: values.off_session === true || values.error_on_requires_action === true,
    authenticated: false,
  });
  return {
    change: attempted.change,
    answer: () => attemptAnswer(desk, attempted, wish.expand),
  };
}

function isConfirmable({ status }: PaymentIntentRecord): boolean {
  return ['requires_payment_method', 'requires_confirmation', 'requires_action'].includes(status);
}

function refusalOf({ status }: PaymentIntentRecord): string {
  if (status === 'succeeded') {
    return 'You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.';
  }
  return (
    `You cannot confirm this PaymentIntent because it has a status of ${status}. Only a PaymentIntent ` +
    'with one of the following statuses may be confirmed: requires_confirmation, requires_action.'
  );
}
