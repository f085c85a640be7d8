import type { JsonObject, JsonValue } from '@triplock/payments';
import { Compile, Type, type Static } from '../schema.ts';
import { shownTime, timeOrNull, withoutControls } from './fields.ts';
import type { FieldProblem } from './problem.ts';
import { noDayIn, timeOf, timeSchema } from './times.ts';
import { explainBody } from './validation.ts';

/**
 * What an API key is for. `full`: everything. `read`: every GET, without what acts for a customer,
 * and nothing else. `pay`: makes transactions of every kind, and reads what follows them.
 */
export const keyScopes = ['full', 'read', 'pay'] as const;
export type KeyScope = (typeof keyScopes)[number];

const scope = Type.Unsafe<KeyScope>({
  type: 'string',
  enum: [...keyScopes],
  description:
    '`full`: everything; `read`: every GET, but not what acts for a customer; `pay`: payments, ' +
    'refunds, captures and cancellations, and their disputes',
});
const nameMeaning = 'a text of 1 to 64 characters without control characters';

/** The body of `POST /v1/api-keys`. */
export const newApiKeySchema = Type.Object(
  {
    scope,
    name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: withoutControls,
        description: nameMeaning,
      }),
    ),
    expires_at: Type.Optional(timeSchema),
  },
  { additionalProperties: false },
);

/** An API key, as every route shows it. */
export const apiKeySchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    object: Type.Literal('api_key'),
    name: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
    prefix: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'how it begins; null for one of which nothing may be shown',
    }),
    scope,
    api_version: Type.String({
      description: 'the `Triplock-Version` that it gets when it asks for none',
    }),
    current: Type.Boolean({ description: 'whether it is the one that asks' }),
    created_at: Type.String(shownTime),
    expires_at: timeOrNull('from then on it is refused; null for one that does not expire'),
    last_used_at: timeOrNull('to within some minutes; null for one that was never used'),
    key: Type.Optional(Type.String({ description: 'shown in the 201 that made it alone' })),
  },
  { additionalProperties: false },
);

/** The answer of `GET /v1/api-keys`. */
export const apiKeyListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe<object>({ $ref: 'PartnerKey#' })),
    has_more: Type.Boolean({
      description:
        'whether there are more than are listed, which mostly expired; there is no other page',
    }),
  },
  { additionalProperties: false },
);

/** What validating a body of `POST /v1/api-keys` gives: what is asked, or what is wrong with it. */
export type ValidatedNewApiKey =
  | {
      outcome: 'valid';
      asked: Static<typeof newApiKeySchema>;
      expiresAt: Date | undefined;
      body: JsonObject;
    }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const check = Compile(newApiKeySchema);
const explain = explainBody(newApiKeySchema);

/** Whether it may expire then is the store's to say, whose clock counts. */
export function validateNewApiKey(json: JsonValue | undefined): ValidatedNewApiKey {
  if (!check.Check(json)) return { outcome: 'invalid', errors: explain(json) };
  const errors = noDayIn({ expires_at: json.expires_at });
  if (errors.length > 0) return { outcome: 'invalid', errors };
  const expiresAt = json.expires_at === undefined ? undefined : timeOf(json.expires_at);
  return { outcome: 'valid', asked: json, expiresAt, body: json };
}
