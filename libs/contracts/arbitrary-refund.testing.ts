import {
  deriveTxnId,
  fingerprint,
  type AcceptedRefund,
  type IdempotencyKey,
  type PartnerId,
  type RefundDetails,
} from '@triplock/payments';
import fc from 'fast-check';
import { anyTime, withoutControls } from './arbitrary-payment.testing.ts';
import { responseVersion } from './http/accepted-response.ts';
import { refundAsSent } from './http/render-refund.ts';

const text = fc.stringMatching(/^[ -~]{1,255}$/);

const details: fc.Arbitrary<RefundDetails> = fc.record(
  { amount: fc.bigInt({ min: 1n, max: 999_999_999_999n }), reason: withoutControls(200) },
  { requiredKeys: [], noNullPrototype: true },
);

/** Any refund that the gateway can accept. */
export const anyAcceptedRefund: fc.Arbitrary<AcceptedRefund> = fc
  .record({
    partner: fc.stringMatching(/^[a-z0-9-]{1,40}$/),
    key: text,
    paymentKey: text,
    details,
    acceptedAt: anyTime,
  })
  .map(({ partner, key, paymentKey, ...rest }) => {
    const partnerId = partner as PartnerId;
    const paymentId = deriveTxnId('payment', partnerId, paymentKey as IdempotencyKey);
    const path = `/v1/payments/${paymentId}/refunds`;
    return {
      txnId: deriveTxnId('refund', partnerId, key as IdempotencyKey),
      partnerId,
      key: key as IdempotencyKey,
      fingerprint: fingerprint({ method: 'POST', path, body: refundAsSent(rest.details) }),
      responseVersion,
      paymentId,
      ...rest,
    };
  });
