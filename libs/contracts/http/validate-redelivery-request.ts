import type { JsonObject, JsonValue } from '@triplock/payments';
import type { Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { explainBody, problem } from './explain-body.ts';
import type { FieldProblem } from './problem.ts';
import { redeliveryRequestSchema, timeMeaning } from './redelivery-schemas.ts';
import { isDay } from './settlement-schemas.ts';

/** The body of `POST /v1/webhook-deliveries/redeliver` after validation. */
export type RedeliveryRequest = Static<typeof redeliveryRequestSchema>;

/**
 * What validating a body gives: what is asked and the value its fingerprint is made of, or why not.
 */
export type ValidatedRedeliveryRequest =
  | { outcome: 'valid'; asked: RedeliveryRequest; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const request = Compile(redeliveryRequestSchema);
const explain = explainBody(redeliveryRequestSchema);

/**
 * Checks a body of `POST /v1/webhook-deliveries/redeliver`. `undefined` means that there was no
 * body. Which windows are too long, or none, is the store's to say: without `until` it depends on
 * its clock.
 */
export function validateRedeliveryRequest(json: JsonValue | undefined): ValidatedRedeliveryRequest {
  if (!request.Check(json)) return { outcome: 'invalid', errors: explain(json) };
  const errors = (['since', 'until'] as const)
    .filter((name) => json[name] !== undefined && !isDay(json[name].slice(0, 'yyyy-mm-dd'.length)))
    .map((name) => problem([name], `expected ${timeMeaning}`));
  if (errors.length > 0) return { outcome: 'invalid', errors };
  return { outcome: 'valid', asked: json, body: json };
}
