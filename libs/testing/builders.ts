import { randomBytes } from 'node:crypto';
import { responseVersion } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  type AcceptedPayment,
  type Currency,
  type IdempotencyKey,
  type PartnerId,
  type PaymentDetails,
} from '@triplock/payments';

/** What a test wants to be special about a payment; the rest is made up. */
export type PaymentWish = {
  partner?: string;
  key?: string;
  amount?: bigint;
  currency?: string;
  acceptedAt?: Date;
} & Omit<Partial<PaymentDetails>, 'money'>;

/** An accepted payment whose id and fingerprint follow from its parts, as the gateway makes them. */
export function aPayment(wish: PaymentWish = {}): AcceptedPayment {
  const { partner, key, amount, currency, acceptedAt, ...texts } = wish;
  const partnerId = (partner ?? 'acme') as PartnerId;
  const idempotencyKey = (key ?? `key-${randomBytes(8).toString('hex')}`) as IdempotencyKey;
  const money = { amount: amount ?? 1_250n, currency: (currency ?? 'EUR') as Currency };
  const body = { amount: Number(money.amount), currency: money.currency, ...texts };
  return {
    txnId: deriveTxnId('payment', partnerId, idempotencyKey),
    partnerId,
    key: idempotencyKey,
    fingerprint: fingerprint({ method: 'POST', path: '/v1/payments', body }),
    responseVersion,
    acceptedAt: acceptedAt ?? new Date(),
    details: { money, ...texts },
  };
}
