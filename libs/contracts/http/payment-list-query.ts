import type { TransactionState, TxnId } from '@triplock/payments';
import { Type, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { jsonPointer } from './json-pointer.ts';
import { paymentRequestSchema, txnIdSchema } from './payment-schemas.ts';
import type { FieldProblem } from './problem.ts';

/** Payments on a page when the partner does not say how many. */
export const pageSizeUsual = 20;

/** The query of `GET /v1/payments`; what validates is what the OpenAPI document shows. */
export const paymentListQuerySchema = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100,
        default: pageSizeUsual,
        description: 'a whole number from 1 to 100',
      }),
    ),
    starting_after: Type.Optional(
      Type.Unsafe<TxnId>({
        ...txnIdSchema,
        description: 'the id of a payment of yours from a page before',
      }),
    ),
    status: Type.Optional(
      Type.Unsafe<TransactionState>({
        type: 'string',
        enum: ['pending', 'succeeded', 'failed'],
        description: 'pending, succeeded or failed',
      }),
    ),
    reference: paymentRequestSchema.properties.reference,
  },
  { additionalProperties: false },
);

/** What a partner wishes to see of its payments. */
export type PaymentListQuery = {
  limit: number;
  startingAfter?: TxnId;
  status?: TransactionState;
  reference?: string;
};

/** What parsing gives: the wishes, or everything that is wrong with them (the first 50). */
export type ParsedPaymentListQuery =
  | { outcome: 'valid'; query: PaymentListQuery }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

// A target of 8 KiB can hold thousands of parameters; the first few are enough to work with.
const errorsMax = 50;

const properties: Readonly<Record<string, TSchema & { description?: string }>> =
  paymentListQuerySchema.properties;
const checks: Readonly<Record<string, ReturnType<typeof Compile>>> = Object.fromEntries(
  Object.entries(properties).map(([name, schema]) => [name, Compile(schema)]),
);

/**
 * Parses the query of a request target, without its `?`, as forms are encoded (a `+` is a space).
 * Nothing is guessed: an unknown, repeated or malformed parameter is an error.
 */
export function parsePaymentListQuery(query: string): ParsedPaymentListQuery {
  const values = new Map<string, unknown>();
  const errors: FieldProblem[] = [];
  const pieces = query.split('&').filter((piece) => piece !== '');
  for (const [name, text] of pieces.map(nameAndText)) {
    const detail = values.has(name) ? 'sent more than once' : refusal(name, text);
    if (detail !== undefined) errors.push({ pointer: jsonPointer([name]), detail });
    values.set(name, valueOf(name, text));
  }
  if (errors.length > 0) return { outcome: 'invalid', errors: errors.slice(0, errorsMax) };
  const { limit, starting_after, status, reference } = Object.fromEntries(values);
  const wishes = {
    limit: limit ?? pageSizeUsual,
    startingAfter: starting_after,
    status,
    reference,
  };
  return { outcome: 'valid', query: wishes as PaymentListQuery };
}

function refusal(name: string, text: string | undefined): string | undefined {
  if (!Object.hasOwn(checks, name)) return 'this parameter is not known';
  if (checks[name]!.Check(valueOf(name, text))) return undefined;
  return `expected ${properties[name]!.description}`;
}

/** Only plain digits are a number: `1e1`, `+5` and `0x5` are none. */
function valueOf(name: string, text: string | undefined): unknown {
  return name === 'limit' && /^[1-9]\d{0,2}$/.test(text ?? '') ? Number(text) : text;
}

function nameAndText(piece: string): [name: string, text: string | undefined] {
  const [name, ...rest] = piece.split('=');
  return [decode(name!) ?? name!, decode(rest.join('='))];
}

/** `undefined` when it is not the percent-encoding of a text in UTF-8. */
function decode(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
