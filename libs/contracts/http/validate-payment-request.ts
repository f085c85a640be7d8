import type { Currency, JsonObject, JsonValue, PaymentDetails } from '@triplock/payments';
import { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { jsonPointer } from './json-pointer.ts';
import { metadataPair, paymentRequestSchema } from './payment-schemas.ts';
import type { FieldProblem } from './problem.ts';

/** What validating a body gives: the payment and the value its fingerprint is made of, or why not. */
export type ValidatedPaymentRequest =
  | { outcome: 'valid'; details: PaymentDetails; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/** The body of `POST /v1/payments` after validation. */
export type PaymentRequest = Static<typeof paymentRequestSchema>;

// A body of 64 KiB can hold thousands of wrong fields; the first few are enough to work with.
const errorsMax = 50;

const request = Compile(paymentRequestSchema);
const fields = compileEach(paymentRequestSchema.properties);
const pair = compileEach(metadataPair);

/**
 * Checks a body of `POST /v1/payments` against {@link paymentRequestSchema} and tells every field
 * that is wrong, unknown or missing (the first 50). `undefined` means that there was no body.
 */
export function validatePaymentRequest(json: JsonValue | undefined): ValidatedPaymentRequest {
  if (request.Check(json)) {
    return { outcome: 'valid', details: detailsOf(json), body: json };
  }
  return { outcome: 'invalid', errors: explain(json).slice(0, errorsMax) };
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

function explain(json: JsonValue | undefined): FieldProblem[] {
  if (!isObject(json)) return [{ pointer: '#', detail: 'expected a JSON object' }];
  const missing = paymentRequestSchema.required.filter((name) => !Object.hasOwn(json, name));
  return [
    ...missing.map((name) => problem([name], `missing: ${expected(name)}`)),
    ...Object.keys(json).flatMap((name) => explainField(name, json[name]!)),
  ];
}

function explainField(name: string, value: JsonValue): FieldProblem[] {
  if (!Object.hasOwn(fields, name)) return [problem([name], 'this field is not known')];
  if (fields[name]!.Check(value)) return [];
  const inside = name === 'metadata' && isObject(value) ? explainPairs(value) : [];
  return inside.length > 0 ? inside : [problem([name], expected(name))];
}

function explainPairs(metadata: JsonObject): FieldProblem[] {
  return Object.entries(metadata).flatMap(([name, value]) => [
    ...(pair['name']!.Check(name) ? [] : [problem(['metadata', name], wanted(metadataPair.name))]),
    ...(pair['value']!.Check(value)
      ? []
      : [problem(['metadata', name], wanted(metadataPair.value))]),
  ]);
}

function expected(name: string): string {
  return wanted((paymentRequestSchema.properties as Record<string, TSchema>)[name]!);
}

function wanted(schema: TSchema & { description?: string }): string {
  return `expected ${schema.description}`;
}

function problem(path: readonly string[], detail: string): FieldProblem {
  return { pointer: jsonPointer(path), detail };
}

function compileEach(
  schemas: Readonly<Record<string, TSchema>>,
): Readonly<Record<string, ReturnType<typeof Compile>>> {
  return Object.fromEntries(Object.entries(schemas).map(([name, each]) => [name, Compile(each)]));
}

function isObject(json: JsonValue | undefined): json is JsonObject {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}
