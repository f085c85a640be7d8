import { canonicalJson, type JsonValue } from './canonical-json.ts';
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
