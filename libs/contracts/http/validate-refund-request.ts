import type { JsonObject, JsonValue, RefundDetails } from '@triplock/payments';
import type { Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { explainBody } from './explain-body.ts';
import type { FieldProblem } from './problem.ts';
import { refundRequestSchema } from './refund-schemas.ts';

/**
 * What validating a body gives: the refund and the value its fingerprint is made of, or why not.
 */
export type ValidatedRefundRequest =
  | { outcome: 'valid'; details: RefundDetails; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/** The body of `POST /v1/payments/{id}/refunds` after validation. */
export type RefundRequest = Static<typeof refundRequestSchema>;

const request = Compile(refundRequestSchema);
const explain = explainBody(refundRequestSchema);

/**
 * Checks a body of `POST /v1/payments/{id}/refunds`. `undefined` means that there was no body: that
 * is refused, because a client that lost its body would otherwise give back everything.
 */
export function validateRefundRequest(json: JsonValue | undefined): ValidatedRefundRequest {
  if (json === undefined) {
    const detail = 'expected a JSON object; `{}` gives back all that is left of the payment';
    return { outcome: 'invalid', errors: [{ pointer: '#', detail }] };
  }
  if (request.Check(json)) return { outcome: 'valid', details: refundDetailsOf(json), body: json };
  return { outcome: 'invalid', errors: explain(json) };
}

/** The domain's form of fields that were validated. */
export function refundDetailsOf({ amount, reason }: RefundRequest): RefundDetails {
  return {
    ...(amount === undefined ? {} : { amount: BigInt(amount) }),
    ...(reason === undefined ? {} : { reason }),
  };
}
