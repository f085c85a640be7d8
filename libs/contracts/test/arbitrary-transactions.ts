import {
  deriveTxnId,
  fingerprint,
  followUpKinds,
  type AcceptedPayment,
  type AcceptedFollowUp,
  type Currency,
  type IdempotencyKey,
  type PartnerId,
  type Payment,
  type PaymentDetails,
  type FollowUpDetails,
} from '@triplock/payments';
import fc from 'fast-check';
import { asSent, responseVersion } from '../kinds/payment.ts';
import { followUpAsSent } from '../kinds/follow-up.ts';

/** Any text of that many characters at most, without control characters. */
const withoutControls = (lengthMax: number) =>
  fc
    .string({ unit: 'grapheme', maxLength: lengthMax })
    .map((text) => [...text.replace(/\p{Cc}/gu, '')].slice(0, lengthMax).join(''));

const metadataName = withoutControls(40).filter((name) => name !== '' && name !== '__proto__');

const amount = fc.bigInt({ min: 1n, max: 999_999_999_999n });
const currency = fc.constantFrom('EUR', 'JPY', 'KWD').map((code) => code as Currency);

const details: fc.Arbitrary<PaymentDetails> = fc.record(
  {
    money: fc.tuple(amount, currency).map(([of, code]) => ({ amount: of, currency: code })),
    paymentMethod: fc.stringMatching(/^pm_[A-Za-z0-9_]{1,40}$/),
    returnUrl: fc.stringMatching(/^https:\/\/[a-z]{1,20}\.example\/[a-z0-9?=&%]{0,40}$/),
    reference: withoutControls(64),
    description: withoutControls(500),
    metadata: fc.dictionary(metadataName, withoutControls(500), {
      maxKeys: 20,
      noNullPrototype: true,
    }),
  },
  { requiredKeys: ['money'], noNullPrototype: true },
);

/** Any moment that a record can hold. */
const anyTime = fc.date({
  min: new Date(0),
  max: new Date('9999-12-31'),
  noInvalidDate: true,
});

/** Any payment that the gateway can accept. */
export const anyAccepted: fc.Arbitrary<AcceptedPayment> = fc
  .record({
    partner: fc.stringMatching(/^[a-z0-9-]{1,40}$/),
    key: fc.stringMatching(/^[ -~]{1,255}$/),
    details,
    acceptedAt: anyTime,
  })
  .map(({ partner, key, ...rest }) => ({
    kind: 'payment',
    txnId: deriveTxnId('payment', partner as PartnerId, key as IdempotencyKey),
    partnerId: partner as PartnerId,
    key: key as IdempotencyKey,
    fingerprint: fingerprint({ method: 'POST', path: '/v1/payments', body: asSent(rest.details) }),
    responseVersion,
    ...rest,
  }));

/** Any payment that the ledger has settled. */
export const anySettled: fc.Arbitrary<Payment> = fc
  .record({
    accepted: anyAccepted,
    settledAt: anyTime,
    end: fc.constantFrom(
      { state: 'succeeded' as const },
      { state: 'failed' as const, failure: { code: 'declined', message: 'Declined.' } },
    ),
  })
  .map(({ accepted, settledAt, end }) => ({
    ...accepted,
    ...end,
    settledAt,
    version: 2,
    amountRefunded: 0n,
  }));

const text = fc.stringMatching(/^[ -~]{1,255}$/);

const refundDetails: fc.Arbitrary<FollowUpDetails> = fc.record(
  { amount: fc.bigInt({ min: 1n, max: 999_999_999_999n }), reason: withoutControls(200) },
  { requiredKeys: [], noNullPrototype: true },
);

/** Any refund, capture or cancellation that the gateway can accept. */
export const anyAcceptedRefund: fc.Arbitrary<AcceptedFollowUp> = fc
  .record({
    partner: fc.stringMatching(/^[a-z0-9-]{1,40}$/),
    key: text,
    paymentKey: text,
    kind: fc.constantFrom(...followUpKinds),
    details: refundDetails,
    acceptedAt: anyTime,
  })
  .map(({ partner, key, paymentKey, kind, details: { amount, reason }, acceptedAt }) => {
    const details = {
      ...(amount === undefined || kind === 'cancellation' ? {} : { amount }),
      ...(reason === undefined || kind === 'capture' ? {} : { reason }),
    };
    const partnerId = partner as PartnerId;
    const paymentId = deriveTxnId('payment', partnerId, paymentKey as IdempotencyKey);
    const path = `/v1/payments/${paymentId}/${kind}s`;
    return {
      kind,
      txnId: deriveTxnId(kind, partnerId, key as IdempotencyKey),
      partnerId,
      key: key as IdempotencyKey,
      fingerprint: fingerprint({ method: 'POST', path, body: followUpAsSent(details) }),
      responseVersion,
      paymentId,
      details,
      acceptedAt,
    };
  });
