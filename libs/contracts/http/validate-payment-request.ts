import type { Currency, JsonObject, JsonValue, PaymentDetails } from '@triplock/payments';
import type { Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { compileEach, explainBody, isJsonObject, problem, wanted } from './explain-body.ts';
import { metadataPair, paymentRequestSchema } from './payment-schemas.ts';
import type { FieldProblem } from './problem.ts';

/**
 * What validating a body gives: the payment and the value its fingerprint is made of, or why not.
 */
export type ValidatedPaymentRequest =
  | { outcome: 'valid'; details: PaymentDetails; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/** The body of `POST /v1/payments` after validation. */
export type PaymentRequest = Static<typeof paymentRequestSchema>;

const request = Compile(paymentRequestSchema);
const pair = compileEach(metadataPair);
const explain = explainBody(paymentRequestSchema, explainPairs);

/**
 * Checks a body of `POST /v1/payments` against {@link paymentRequestSchema} and names every field
 * that is wrong, unknown or missing (the first 50). `undefined` means that there was no body.
 */
export function validatePaymentRequest(json: JsonValue | undefined): ValidatedPaymentRequest {
  if (request.Check(json)) {
    return { outcome: 'valid', details: detailsOf(json), body: json };
  }
  return { outcome: 'invalid', errors: explain(json) };
}

/** The domain's form of fields that were validated. */
export function detailsOf(fields: PaymentRequest): PaymentDetails {
  const {
    amount,
    currency,
    payment_method: paymentMethod,
    reference,
    description,
    metadata,
  } = fields;
  return {
    money: { amount: BigInt(amount), currency: currency as Currency },
    ...(paymentMethod === undefined ? {} : { paymentMethod }),
    ...(reference === undefined ? {} : { reference }),
    ...(description === undefined ? {} : { description }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

function explainPairs(name: string, metadata: JsonValue): FieldProblem[] {
  if (name !== 'metadata' || !isJsonObject(metadata)) return [];
  return Object.entries(metadata).flatMap(([name, value]) => [
    ...(pair['name']!.Check(name) ? [] : [problem(['metadata', name], wanted(metadataPair.name))]),
    ...(pair['value']!.Check(value)
      ? []
      : [problem(['metadata', name], wanted(metadataPair.value))]),
  ]);
}
