import { randomBytes } from 'node:crypto';
import { asSent, followUpAsSent, responseVersion } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  type AcceptedPayment,
  type AcceptedFollowUp,
  type Currency,
  type FollowUpKind,
  type IdempotencyKey,
  type PartnerId,
  type PaymentDetails,
  type PaymentKind,
  type FollowUpDetails,
} from '@triplock/payments';

/** What a test wants to be special about a payment; the rest is made up. */
export type PaymentWish = {
  kind?: PaymentKind;
  partner?: string;
  key?: string;
  amount?: bigint;
  currency?: string;
  acceptedAt?: Date;
} & Omit<Partial<PaymentDetails>, 'money'>;

/** Every field but the amount that a partner may send, with texts that are easily lost. */
export const everyField: Required<Omit<PaymentDetails, 'money'>> = {
  paymentMethod: 'pm_card_visa',
  returnUrl: 'https://shop.example:8443/done?order=%22#a[1]',
  captureMethod: 'manual',
  reference: 'Ω "quoted" \\ / 𝄞',
  description: 'two\nlines',
  metadata: { zulu: '', 10: 'ten', 9: 'nine', __proto__x: '{"a":1}', é: '\t' },
};

/**
 * An accepted payment whose id and fingerprint follow from its parts, as the gateway makes them.
 */
export function aPayment(wish: PaymentWish = {}): AcceptedPayment {
  const { kind = 'payment', partner, key, amount, currency, acceptedAt, ...texts } = wish;
  const partnerId = (partner ?? 'acme') as PartnerId;
  const idempotencyKey = (key ?? `key-${randomBytes(8).toString('hex')}`) as IdempotencyKey;
  const money = { amount: amount ?? 1_250n, currency: (currency ?? 'EUR') as Currency };
  const details = { money, ...texts };
  return {
    kind,
    txnId: deriveTxnId(kind, partnerId, idempotencyKey),
    partnerId,
    key: idempotencyKey,
    fingerprint: fingerprint({ method: 'POST', path: `/v1/${kind}s`, body: asSent(details) }),
    responseVersion,
    acceptedAt: acceptedAt ?? new Date(),
    details,
  };
}

const long = (characters: number) => '𝄞'.repeat(characters);

/** Everything that a payment may say besides its amount, as long as it may be: 45 KB of UTF-8. */
export const longestFields: Required<Omit<PaymentDetails, 'money'>> = {
  paymentMethod: `pm_${'x'.repeat(252)}`,
  returnUrl: `https://shop.example/${'x'.repeat(2_027)}`,
  captureMethod: 'manual',
  reference: long(64),
  description: long(500),
  metadata: Object.fromEntries(
    Array.from({ length: 20 }, (_, at) => [`${long(38)}${10 + at}`, long(500)]),
  ),
};

/** What a test wants to be special about a refund. */
export type RefundWish = {
  kind?: FollowUpKind;
  key?: string;
  partner?: string;
  acceptedAt?: Date;
} & FollowUpDetails;

/**
 * An accepted refund of a payment, or a capture or cancellation, by that payment's partner unless
 * another is wished for.
 */
export function aRefund(payment: AcceptedPayment, wish: RefundWish = {}): AcceptedFollowUp {
  const { kind = 'refund', key, partner, acceptedAt, ...details } = wish;
  const partnerId = (partner ?? payment.partnerId) as PartnerId;
  const idempotencyKey = (key ?? `key-${randomBytes(8).toString('hex')}`) as IdempotencyKey;
  const path = `/v1/payments/${payment.txnId}/${kind}s`;
  return {
    kind,
    txnId: deriveTxnId(kind, partnerId, idempotencyKey),
    partnerId,
    key: idempotencyKey,
    fingerprint: fingerprint({ method: 'POST', path, body: followUpAsSent(details) }),
    responseVersion,
    acceptedAt: acceptedAt ?? new Date(),
    paymentId: payment.txnId,
    details,
  };
}
