import { digestParts, type Fingerprint } from './identity.ts';

/**
 * The request whose sameness a fingerprint decides. `path` is resolved: no query, no trailing
 * slash.
 */
export type FingerprintedRequest = { method: string; path: string; body: JsonValue };

/**
 * Tells a retry from a reused key: SHA-256 over method, resolved path and the canonical body
 * (RFC 8785), each preceded by its length. It travels in the claim, the Kafka record and the
 * ledger row, so that any of them alone can decide.
 */
export function fingerprint(request: FingerprintedRequest): Fingerprint {
  const parts = [request.method, request.path, canonicalJson(request.body)];
  return digestParts(parts) as Fingerprint;
}

/**
 * A value that JSON can carry; numbers are integers within ±(2^53 − 1) everywhere in this system.
 */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export type JsonObject = { readonly [name: string]: JsonValue | undefined };

/**
 * The canonical form of RFC 8785 (JCS): member names sorted by UTF-16 code units, no white space,
 * ECMAScript's own forms of numbers and strings. Members that are `undefined` are left out.
 *
 * Two bodies that say the same thing give the same text, whatever their order or spacing.
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  let members = '';
  for (const name of Object.keys(value).sort()) {
    const member = value[name];
    if (member === undefined) continue;
    if (members !== '') members += ',';
    members += `${JSON.stringify(name)}:${canonicalJson(member)}`;
  }
  return `{${members}}`;
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
