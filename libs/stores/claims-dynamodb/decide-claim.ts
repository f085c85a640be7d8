import type { ClaimOutcome, ClaimRequest, OwnerToken } from '@triplock/claims';
import type { Item } from './item.ts';
import type { Moment } from './service-clock.ts';

/** What a record, or that there is none, means for a claim. */
export type Decision =
  | Exclude<ClaimOutcome, { outcome: 'cold' }>
  /** The same request, and nobody is at work: take over this version of it. */
  | { outcome: 'take-over'; version: number; state: string; acceptedAt: Date }
  /** Nobody has claimed it within the life of a claim. */
  | { outcome: 'free' };

/**
 * Decides in the order that is the promise: the fingerprint first, so that a reused key is told
 * from a retry in every state. A lease or a life is over only when it is over at the earliest time
 * that the service's clock may show. An item whose life is over counts as none: DynamoDB deletes by
 * TTL hours or days late.
 */
export function decideClaim(
  record: Item | undefined,
  { request, token, now }: { request: ClaimRequest; token: OwnerToken; now: Moment },
): Decision {
  if (record === undefined || Number(record['expires_at']) <= now.earliest) {
    return { outcome: 'free' };
  }
  if (record['fingerprint'] !== request.fingerprint) return { outcome: 'reused' };
  const acceptedAt = new Date(Number(record['accepted_at']));
  const state = String(record['state']);
  if (state === 'completed') {
    const { status, location, body } = record;
    const answer = { status: Number(status), location: String(location), body: String(body) };
    return { outcome: 'completed', answer };
  }
  // Only this very request has the token: its write was done, and the client sent it again.
  if (record['owner'] === token) return { outcome: 'claimed', token, acceptedAt };
  const leaseLeftMs = Number(record['lease_until']) - now.earliest;
  if (state === 'in-flight' && leaseLeftMs > 0) return { outcome: 'in-flight', leaseLeftMs };
  return { outcome: 'take-over', version: Number(record['version']), state, acceptedAt };
}
