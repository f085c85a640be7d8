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
  type TxnId,
} from '@triplock/payments';
import type { TestRelay } from '@triplock/testing';
import type { ClaimOutcome, ClaimRequest, Claims, BucketEpoch } from '../claims.ts';

/** A store under test, and what only its owner can do to it. */
export type ClaimsUnderTest = {
  claims: Claims;
  /** Opens the same store once more, as a second gateway does. */
  another(): Promise<Claims>;
  /** Loses all that it holds, as FLUSHALL or a dropped table would. */
  forget(): Promise<void>;
  /** Makes a claim so many milliseconds older, by changing what is stored. */
  age(txnId: TxnId, ms: number): Promise<void>;
  /** The way by which `claims` reaches its store. */
  relay: TestRelay;
};

/** Opens an empty store that is closed after the test; times in milliseconds. */
export type OpenClaims = (
  test: TestContext,
  times: { leaseMs: number; lifeMs: number; answerTimeoutMs?: number },
) => Promise<ClaimsUnderTest>;

export const hourMs = 3_600_000;

/**
 * Nothing ends while the test runs, unless the claim is made older; a busy machine is waited for.
 */
export const lasting = { leaseMs: hourMs, lifeMs: 24 * hourMs, answerTimeoutMs: 15_000 };

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

/** Another id in the request's bucket. */
export function idInBucketOf(request: ClaimRequest): TxnId {
  for (;;) {
    const other = aClaim();
    if (bucketOfClaim(other) === bucketOfClaim(request)) return other.txnId;
  }
}

/** Makes the request's bucket remember without a gap, as on an empty system. */
export async function warmUp(claims: Claims, request: ClaimRequest): Promise<BucketEpoch> {
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
