import type { EventType, JsonObject, JsonValue } from '@triplock/payments';
import type { FieldProblem } from '../http/problem.ts';
import type { TProperties, TSchema } from '../schema.ts';

/**
 * What validating a body gives: what is asked for and the value its fingerprint is made of, or why
 * not.
 */
export type ValidatedRequest<Details> =
  | { outcome: 'valid'; details: Details; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/**
 * What partners and records say of one kind of transaction; `Details` is the domain's form of what
 * is asked for.
 */
export type KindContract<Details> = {
  /** What was asked for, as its records, events and answers have it. */
  fields: TProperties;
  /** The body of a request. */
  request: TSchema;
  /** Two different ones. */
  examples: readonly [JsonObject, JsonObject];
  /** The body of its 202. */
  accepted: TSchema;
  /** What `GET` by its id shows, and its webhooks. */
  shown: TSchema;
  /** What of its webhooks show something else. */
  told?: Readonly<Partial<Record<EventType, TSchema>>>;
  /**
   * Checks a body and names every field that is wrong, unknown or missing (the first 50).
   * `undefined` means that there was no body.
   */
  validate(json: JsonValue | undefined): ValidatedRequest<Details>;
};
