import { newId } from '../records/new-id.ts';
import type { PaymentMethodRecord } from '../records/records.ts';
import { testMethodOf } from '../records/test-method-of.ts';
import { testPaymentMethods } from '../records/test-payment-methods.ts';
import { refuse, took, type Read } from '../wire/read-params.ts';
import { invalidRequest, resourceMissing } from '../wire/stripe-error.ts';
import type { Desk } from './operation.ts';

/**
 * The payment method that a request names: one that is there, or a new one made from a test method
 * (`pm_card_visa` gives a new `pm_…` each time: https://docs.stripe.com/testing).
 */
export function findPaymentMethod(desk: Desk, id: string): Read<PaymentMethodRecord> {
  const known = desk.account.paymentMethods.get(id);
  if (known !== undefined) return took(known);
  if (!Object.hasOwn(testPaymentMethods, id)) {
    return refuse(resourceMissing({ kind: 'PaymentMethod', id, param: 'payment_method' }));
  }
  const created = desk.now();
  return took({ kind: 'payment_method', id: newId('pm_'), created, testMethod: id });
}

/** Whether an intent can be paid with this method at all; a bank debit is in dollars. */
export function checkMethodFits(
  method: PaymentMethodRecord,
  intent: { paymentMethodTypes: readonly string[]; currency: string },
): Read<PaymentMethodRecord> {
  const { type } = testMethodOf(method);
  const param = 'payment_method';
  if (!intent.paymentMethodTypes.includes(type)) {
    const allowed = intent.paymentMethodTypes.join(', ');
    const message = `The PaymentMethod provided (${type}) is not allowed for this PaymentIntent. It takes: ${allowed}.`;
    return refuse(invalidRequest(message, { param }));
  }
  if (type === 'us_bank_account' && intent.currency !== 'usd') {
    const message = `The currency provided (${intent.currency}) is invalid for us_bank_account: it takes usd.`;
    return refuse(invalidRequest(message, { param: 'currency' }));
  }
  return took(method);
}
