import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { bucketCount, type StoredAnswer } from '@triplock/contracts';
import {
  bucketOf,
  deriveTxnId,
  type Fingerprint,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import type { ClaimOutcome, ClaimRequest, Claims, MemoryEpoch } from './claims.ts';

/** A store under test. `forget` loses all that it holds, as FLUSHALL or a dropped table would. */
export type ClaimsUnderTest = { claims: Claims; forget(): Promise<void> };

/** Opens an empty store that is closed after the test; times in milliseconds. */
export type OpenClaims = (
  test: TestContext,
  times: { leaseMs: number; lifeMs: number },
) => Promise<ClaimsUnderTest>;

const hourMs = 3_600_000;

/** Nothing ends while the test runs. */
export const lasting = { leaseMs: hourMs, lifeMs: 24 * hourMs };
/** Leases end before anybody can use them. */
export const brief = { leaseMs: 1, lifeMs: 24 * hourMs };

/** A request for an id of its own; the same twice when given what the first one was. */
export function aClaim(wish: Partial<ClaimRequest> = {}): ClaimRequest {
  const partnerId = 'acme' as PartnerId;
  const key = randomBytes(8).toString('hex') as IdempotencyKey;
  return {
    txnId: deriveTxnId('payment', partnerId, key),
    partnerId,
    fingerprint: aFingerprint(),
    acceptedAt: new Date(1_700_000_000_123),
    shown: '{"status":"pending","description":"Schöne Grüße ✓ \\u0000"}',
    ...wish,
  };
}

export function aFingerprint(): Fingerprint {
  return randomBytes(32).toString('hex') as Fingerprint;
}

/** An answer whose bytes are easily spoilt. */
export const anAnswer: StoredAnswer = {
  status: 202,
  location: '/v1/payments/some-id',
  body: '{"amount":999999999999,"description":"zwei  Leerzeichen, 😀 and \\"quotes\\"\\n"}',
};

/** The id's bucket. */
export function bucketOfClaim(request: ClaimRequest): number {
  return bucketOf(request.txnId, bucketCount);
}

/** Makes the request's bucket remember without a gap, as on an empty system. */
export async function warmUp(claims: Claims, request: ClaimRequest): Promise<MemoryEpoch> {
  const bucket = bucketOfClaim(request);
  const { epoch } = await claims.noteLoss(bucket);
  await claims.setBarrier({ bucket, epoch, barrier: '{}', warm: true });
  return epoch;
}

/** The outcome, which must be the one expected. */
export function expectOutcome<Outcome extends ClaimOutcome['outcome']>(
  actual: ClaimOutcome,
  outcome: Outcome,
): Extract<ClaimOutcome, { outcome: Outcome }> {
  assert.equal(actual.outcome, outcome);
  return actual as Extract<ClaimOutcome, { outcome: Outcome }>;
}
