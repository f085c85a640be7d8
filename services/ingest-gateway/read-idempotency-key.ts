import { parseIdempotencyKey, Problem } from '@triplock/contracts';
import type { IdempotencyKey } from '@triplock/payments';
import type { FastifyRequest } from 'fastify';

const headerName = 'idempotency-key';

/**
 * The request's idempotency key. It reads the raw header lines, because Node would join two of them
 * into one value.
 *
 * @throws Problem `idempotency_key_missing` or `idempotency_key_invalid`.
 */
export function readIdempotencyKey(request: FastifyRequest): IdempotencyKey {
  const parsed = parseIdempotencyKey(linesOf(request.raw.rawHeaders));
  if (parsed.outcome === 'key') return parsed.key;
  throw new Problem(`idempotency_key_${parsed.outcome}`, parsed.detail);
}

/** `rawHeaders` alternates names and values, in the order and case in which they came. */
function linesOf(rawHeaders: readonly string[]): string[] {
  const lines: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length === headerName.length && name.toLowerCase() === headerName) {
      lines.push(rawHeaders[at + 1]!);
    }
  }
  return lines;
}
