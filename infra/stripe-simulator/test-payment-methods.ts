import type { DisputeReason, PaymentFailure, PaymentMethodRecord } from './records.ts';

/** What a test payment method does when it is charged, and when that charge is refunded. */
export type TestMethod = {
  readonly type: 'card' | 'us_bank_account';
  readonly brand: string;
  readonly last4: string;
  readonly charge: ChargeBehaviour;
  readonly refund: 'succeeds' | 'pends' | 'fails-later';
  /** Its customer disputes what was taken. */
  readonly dispute?: DisputeReason;
};

export type ChargeBehaviour =
  | { readonly does: 'succeed' }
  | { readonly does: 'decline'; readonly failure: PaymentFailure }
  | { readonly does: 'ask'; readonly then: 'succeed' | 'decline' }
  | { readonly does: 'process'; readonly ends: 'succeeded' | 'never' | PaymentFailure };

/** The decline after an authentication that went well (…ChargeDeclinedInsufficientFunds). */
export const insufficientFunds = declined(
  'insufficient_funds',
  'Your card has insufficient funds.',
);

const generic = declined('generic_decline', 'Your card was declined.');
const lost = declined('lost_card', 'Your card was declined.');
const stolen = declined('stolen_card', 'Your card was declined.');
const fraudulent = declined('fraudulent', 'Your card was declined.');
const tooOften = declined(
  'card_velocity_exceeded',
  'Your card was declined for making repeated attempts too frequently or exceeding its amount limit.',
);
// Stripe's table gives these a code of their own and no decline code.
const expired: PaymentFailure = { code: 'expired_card', message: 'Your card has expired.' };
const wrongCvc: PaymentFailure = {
  code: 'incorrect_cvc',
  message: "Your card's security code is incorrect.",
};
const processingError: PaymentFailure = {
  code: 'processing_error',
  message: 'An error occurred while processing your card. Try again in a little bit.',
};

/**
 * Stripe's test payment methods by name. Cards: https://docs.stripe.com/testing (cards by brand,
 * declined payments, 3D Secure, refunds, disputes); bank accounts, which settle later:
 * https://docs.stripe.com/payments/ach-direct-debit/accept-a-payment (test account numbers).
 */
export const testPaymentMethods: Readonly<Record<string, TestMethod>> = {
  pm_card_visa: card('4242', 'visa'),
  pm_card_visa_debit: card('5556', 'visa'),
  pm_card_mastercard: card('4444', 'mastercard'),
  pm_card_mastercard_debit: card('8210', 'mastercard'),
  pm_card_mastercard_prepaid: card('5100', 'mastercard'),
  pm_card_amex: card('0005', 'amex'),
  pm_card_discover: card('1117', 'discover'),
  pm_card_diners: card('0004', 'diners'),
  pm_card_jcb: card('0505', 'jcb'),
  pm_card_unionpay: card('0005', 'unionpay'),
  pm_card_bypassPending: card('0077', 'visa'),
  pm_card_threeDSecureOptional: card('3055', 'visa'),

  pm_card_chargeDeclined: declining('0002', generic),
  pm_card_visa_chargeDeclined: declining('0002', generic),
  pm_card_chargeDeclinedInsufficientFunds: declining('9995', insufficientFunds),
  pm_card_visa_chargeDeclinedInsufficientFunds: declining('9995', insufficientFunds),
  pm_card_chargeDeclinedLostCard: declining('9987', lost),
  pm_card_visa_chargeDeclinedLostCard: declining('9987', lost),
  pm_card_chargeDeclinedStolenCard: declining('9979', stolen),
  pm_card_visa_chargeDeclinedStolenCard: declining('9979', stolen),
  pm_card_chargeDeclinedExpiredCard: declining('0069', expired),
  pm_card_chargeDeclinedIncorrectCvc: declining('0127', wrongCvc),
  pm_card_chargeDeclinedProcessingError: declining('0119', processingError),
  pm_card_visa_chargeDeclinedVelocityLimitExceeded: declining('6975', tooOften),
  pm_card_chargeCustomerFail: declining('0341', generic),
  pm_card_radarBlock: declining('0019', fraudulent),

  pm_card_authenticationRequired: asking('3184', 'succeed'),
  pm_card_threeDSecure2Required: asking('3220', 'succeed'),
  pm_card_threeDSecureRequired: asking('3063', 'succeed'),
  pm_card_authenticationRequiredChargeDeclinedInsufficientFunds: asking('8260', 'decline'),

  pm_card_pendingRefund: { ...card('7726', 'visa'), refund: 'pends' },
  pm_card_refundFail: { ...card('5126', 'visa'), refund: 'fails-later' },

  pm_card_createDispute: { ...card('0259', 'visa'), dispute: 'fraudulent' },
  pm_card_createDisputeProductNotReceived: {
    ...card('2685', 'visa'),
    dispute: 'product_not_received',
  },

  pm_usBankAccount_success: bank('6789', 'succeeded'),
  pm_usBankAccount_processing: bank('0009', 'never'),
  pm_usBankAccount_accountClosed: bank('1113', {
    code: 'account_closed',
    message: "The customer's bank account has been closed.",
  }),
  pm_usBankAccount_noAccount: bank('1116', {
    code: 'no_account',
    message: "The customer's bank account could not be located.",
  }),
  pm_usBankAccount_insufficientFunds: bank('2227', {
    code: 'insufficient_funds',
    message: "The customer's account has insufficient funds to cover this payment.",
  }),
  pm_usBankAccount_debitNotAuthorized: bank('3335', {
    code: 'debit_not_authorized',
    message: 'The customer has notified their bank that this payment was unauthorized.',
  }),
};

function declined(declineCode: string, message: string): PaymentFailure {
  return { code: 'card_declined', declineCode, message };
}

function card(last4: string, brand: string): TestMethod {
  return { type: 'card', brand, last4, charge: { does: 'succeed' }, refund: 'succeeds' };
}

function declining(last4: string, failure: PaymentFailure): TestMethod {
  return { ...card(last4, 'visa'), charge: { does: 'decline', failure } };
}

function asking(last4: string, then: 'succeed' | 'decline'): TestMethod {
  return { ...card(last4, 'visa'), charge: { does: 'ask', then } };
}

function bank(last4: string, ends: 'succeeded' | 'never' | PaymentFailure): TestMethod {
  const charge: ChargeBehaviour = { does: 'process', ends };
  return { type: 'us_bank_account', brand: '', last4, charge, refund: 'succeeds' };
}

/** How a payment method behaves. A record of an unknown method is a bug, or an older journal. */
export function testMethodOf(record: PaymentMethodRecord): TestMethod {
  const method = testPaymentMethods[record.testMethod];
  if (method === undefined) throw new Error(`no test payment method ${record.testMethod}`);
  return method;
}
