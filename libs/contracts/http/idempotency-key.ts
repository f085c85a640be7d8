import type { IdempotencyKey } from '@triplock/payments';
import { Problem } from './problem.ts';

/** What the `Idempotency-Key` header lines of one request come to. */
export type ParsedKey =
  { outcome: 'key'; key: IdempotencyKey } | { outcome: 'missing' | 'invalid'; detail: string };

const headerName = 'idempotency-key';
const lengthMax = 255;
const printable = /^[ -~]*$/;
// A comma is how a proxy joins two header lines, a semicolon is how parameters begin: in a bare key
// either would leave two readings, so such a key has to be quoted.
const ambiguousBare = /[,;]/;
const structuredString = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/;

/**
 * A request's key, from its raw header lines (names and values in turn, as they came): Node would
 * join two lines of one name into one value.
 *
 * @throws Problem `idempotency_key_missing` or `idempotency_key_invalid`.
 */
export function readIdempotencyKey(rawHeaders: readonly string[]): IdempotencyKey {
  const lines: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length === headerName.length && name.toLowerCase() === headerName) {
      lines.push(rawHeaders[at + 1]!);
    }
  }
  const parsed = parseIdempotencyKey(lines);
  if (parsed.outcome === 'key') return parsed.key;
  throw new Problem(`idempotency_key_${parsed.outcome}`, parsed.detail);
}

/**
 * Reads the key from the raw values of all `Idempotency-Key` lines, one per line. A bare `abc` and
 * the structured-field string `"abc"` (RFC 9651, section 3.3.3) are the same key; surrounding white
 * space is not part of it. 1 to 255 printable ASCII characters after unquoting.
 *
 * The header's draft (draft-ietf-httpapi-idempotency-key-header-07) knows the quoted form only, yet
 * most clients send bare keys.
 */
export function parseIdempotencyKey(lines: readonly string[]): ParsedKey {
  const [line, second] = lines;
  if (line === undefined) {
    return {
      outcome: 'missing',
      detail: 'Send an Idempotency-Key header: a new one each time, the same one to retry.',
    };
  }
  if (second !== undefined) return invalid('Send one Idempotency-Key header, not several.');
  const text = withoutOuterSpace(line);
  if (!printable.test(text)) return invalid('Use printable ASCII characters only.');
  return text.startsWith('"') ? parseQuoted(text) : parseBare(text);
}

// Not a regular expression: one for trailing space takes quadratic time on a header full of it.
function withoutOuterSpace(line: string): string {
  let [start, end] = [0, line.length];
  while (start < end && isSpace(line[start])) start += 1;
  while (end > start && isSpace(line[end - 1])) end -= 1;
  return line.slice(start, end);
}

function isSpace(character: string | undefined): boolean {
  return character === ' ' || character === '\t';
}

function parseQuoted(text: string): ParsedKey {
  const [, escaped] = structuredString.exec(text) ?? [];
  if (escaped === undefined) {
    return invalid('Close the quotes, escape only " and \\, and let nothing follow the string.');
  }
  return checkLength(escaped.replace(/\\(.)/g, '$1'));
}

function parseBare(text: string): ParsedKey {
  if (ambiguousBare.test(text)) {
    return invalid('Put a key that has a comma or a semicolon in double quotes.');
  }
  return checkLength(text);
}

/** The same of a key that is not in a header, but is said as it is: in a path, percent-decoded. */
export function parseBareIdempotencyKey(text: string): ParsedKey {
  return printable.test(text) ? checkLength(text) : invalid('Use printable ASCII characters only.');
}

function checkLength(key: string): ParsedKey {
  if (key.length >= 1 && key.length <= lengthMax) {
    return { outcome: 'key', key: key as IdempotencyKey };
  }
  return invalid(`Use 1 to ${lengthMax} characters.`);
}

function invalid(detail: string): ParsedKey {
  return { outcome: 'invalid', detail };
}
