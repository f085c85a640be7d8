import type { PaymentIntentRecord } from '../records/records.ts';
import type { Change } from '../store/entry.ts';
import { attemptPayment, failPayment } from './attempt-payment.ts';
import type { Desk } from './operation.ts';

export type Authentication = 'succeeded' | 'failed';

export type Authenticated =
  | { readonly outcome: 'done'; readonly change: Change }
  | { readonly outcome: 'not-asked'; readonly status: PaymentIntentRecord['status'] }
  | { readonly outcome: 'unknown' };

/**
 * What the customer does on the bank's page, which no API call of the merchant can do:
 * https://docs.stripe.com/payments/3d-secure/authentication-flow. A failed one leaves
 * `payment_intent_authentication_failure` (https://docs.stripe.com/error-codes) and no charge.
 */
export function authenticateCustomer(
  desk: Desk,
  id: string,
  result: Authentication,
): Authenticated {
  const intent = desk.account.paymentIntents.get(id);
  if (intent === undefined) return { outcome: 'unknown' };
  const method = desk.account.paymentMethods.get(intent.paymentMethod ?? '');
  if (intent.status !== 'requires_action' || method === undefined) {
    return { outcome: 'not-asked', status: intent.status };
  }
  const attempt = {
    ...{ intent: { ...intent, action: null }, method, at: desk.now(), request: null },
    ...{ settleAfterMs: desk.settleAfterMs(), redirect: null },
    ...{ unattended: false, authenticated: true },
  };
  if (result === 'succeeded') return { outcome: 'done', change: attemptPayment(attempt).change };
  const failure = {
    code: 'payment_intent_authentication_failure',
    message:
      'The provided PaymentMethod has failed authentication. You can provide payment_method_data or ' +
      'a new PaymentMethod to attempt to fulfill this PaymentIntent again.',
    charge: null,
    paymentMethod: method,
  };
  return { outcome: 'done', change: failPayment(attempt, failure).change };
}
