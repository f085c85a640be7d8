import type { JsonObject, JsonValue } from '@triplock/payments';
import { Compile } from 'typebox/compile';
import { jsonPointer } from './json-pointer.ts';
import type { FieldProblem } from './problem.ts';
import { webhookEndpointRequestSchema, webhookUrlMeaning } from './webhook-schemas.ts';

/** A URL by its form, or every field that is wrong. Whether it may be sent to is judged apart. */
export type ValidatedWebhookEndpoint =
  { outcome: 'valid'; url: URL; text: string } | { outcome: 'invalid'; errors: FieldProblem[] };

const request = Compile(webhookEndpointRequestSchema);
const expected = `expected ${webhookUrlMeaning}`;

// A body of 64 KiB can hold thousands of unknown fields; the first few are enough to work with.
const errorsMax = 50;

/** Checks a body of `PUT /v1/webhook-endpoint`. `undefined` means that there was no body. */
export function validateWebhookEndpoint(json: JsonValue | undefined): ValidatedWebhookEndpoint {
  if (request.Check(json)) {
    const url = URL.parse(json.url);
    if (url !== null) return { outcome: 'valid', url, text: json.url };
    return { outcome: 'invalid', errors: [{ pointer: '#/url', detail: expected }] };
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return { outcome: 'invalid', errors: [{ pointer: '#', detail: 'expected a JSON object' }] };
  }
  const { url, ...unknown } = json as JsonObject;
  const errors = Object.keys(unknown).map((name) => {
    return { pointer: jsonPointer([name]), detail: 'this field is not known' };
  });
  if (url === undefined) errors.unshift({ pointer: '#/url', detail: `missing: ${expected}` });
  else if (!request.Check({ url })) errors.unshift({ pointer: '#/url', detail: expected });
  return { outcome: 'invalid', errors: errors.slice(0, errorsMax) };
}
