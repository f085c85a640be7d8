import { hasCardNumber } from '@triplock/payments';
import { Type } from '../schema.ts';

/** Every `code` a problem can have, with its status and title. */
export const problemCodes = {
  idempotency_key_missing: { status: 400, title: 'Idempotency-Key is missing' },
  idempotency_key_invalid: { status: 400, title: 'Idempotency-Key is invalid' },
  idempotency_key_in_use: { status: 409, title: 'A request with this key is in progress' },
  idempotency_key_reused: { status: 422, title: 'This key was used for another request' },
  invalid_request: { status: 400, title: 'The request is invalid' },
  webhook_endpoint_not_verified: { status: 409, title: 'The webhook endpoint is not verified' },
  settlement_open: { status: 409, title: 'The day is not closed' },
  last_full_key: { status: 409, title: 'It is the last API key for everything' },
  unauthorized: { status: 401, title: 'Not authenticated' },
  insufficient_scope: { status: 403, title: 'The API key may not do this' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  position_expired: { status: 410, title: 'The position is too old' },
  body_too_large: { status: 413, title: 'The body is too large' },
  uri_too_long: { status: 414, title: 'The request target is too long' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  rate_limited: { status: 429, title: 'Too many requests' },
  headers_too_large: { status: 431, title: 'The request head is too large' },
  internal_error: { status: 500, title: 'Internal error' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const;
export type ProblemCode = keyof typeof problemCodes;

/** A field that is wrong; `pointer` is a JSON pointer as a URI fragment, e.g. `#/amount`. */
export type FieldProblem = { pointer: string; detail: string };

/** The body of an error, `application/problem+json` (RFC 9457). */
export type ProblemBody = {
  type: string;
  title: string;
  status: number;
  /** Says what to do. */
  detail: string;
  code: ProblemCode;
  /** That of the answer's `Request-Id`. */
  request_id: string;
  errors?: readonly FieldProblem[];
};

/**
 * An answer that refuses a request; thrown by routes and rendered in one place. It has no stack:
 * nobody reads that of a refusal, and to take it costs more than to answer.
 */
export class Problem extends Error {
  override name = 'Problem';
  readonly code: ProblemCode;
  readonly errors: readonly FieldProblem[];
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    code: ProblemCode,
    detail: string,
    extra: { errors?: readonly FieldProblem[]; headers?: Readonly<Record<string, string>> } = {},
  ) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(detail);
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.errors = extra.errors ?? [];
    this.headers = extra.headers ?? {};
  }

  get status(): number {
    return problemCodes[this.code].status;
  }

  /** The body of the answer to the request of this id. */
  body(requestId: string): ProblemBody {
    const { status, title } = problemCodes[this.code];
    const errors = this.errors.length > 0 ? { errors: this.errors } : {};
    return {
      type: `urn:triplock:problem:${this.code}`,
      title,
      status,
      detail: this.message,
      code: this.code,
      request_id: requestId,
      ...errors,
    };
  }
}

/** The body of every error, `application/problem+json` (RFC 9457). */
export const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'a URI that names the kind of problem' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String({ description: 'says what to do' }),
    code: Type.Unsafe<string>({ type: 'string', enum: Object.keys(problemCodes) }),
    request_id: Type.String({
      description: 'the `Request-Id` of this answer; quote it to support',
    }),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          { pointer: Type.String({ description: 'e.g. `#/amount`' }), detail: Type.String() },
          { additionalProperties: false },
        ),
      ),
    ),
  },
  { additionalProperties: false },
);

// A pointer shows where, it does not carry a partner's text back: longer names are cut, and one
// that could be a card's number is left out.
const shownMax = 80;

/**
 * A JSON pointer as a URI fragment (RFC 6901, section 6), e.g. `#/metadata/order`; `#` is the whole
 * document.
 */
export function jsonPointer(path: readonly (string | number)[]): string {
  return ['#', ...path.map(pointerSegment)].join('/');
}

function pointerSegment(step: string | number): string {
  const text = String(step).slice(0, shownMax).toWellFormed();
  if (hasCardNumber(String(step))) return encodeURIComponent('…');
  return encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'));
}
