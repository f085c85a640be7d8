import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import {
  bucketOf,
  deriveTxnId,
  type Fingerprint,
  type IdempotencyKey,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import type { TestRelay } from '@triplock/testing';
import type {
  BucketEpoch,
  ClaimOutcome,
  ClaimRequest,
  Claims,
  ClaimTimes,
  ClaimWalk,
  CompletedClaim,
  FirstClaim,
  PartnerLimits,
  ShownClaim,
} from '../claims.ts';

/** A store under test, and what only its owner can do to it. */
export type ClaimsUnderTest = {
  claims: Claims;
  /** Opens the same store once more, as a second gateway does. */
  another(): Promise<Claims>;
  /** Opens it for whoever compares all claims with the ledger, by the relay. */
  openWalk(): Promise<ClaimWalk>;
  /** Loses all that it holds, as FLUSHALL or a dropped table would. */
  forget(): Promise<void>;
  /** Makes a claim, and what is shown of it, so much older, by changing what is stored. */
  age(txnId: TxnId, ms: number): Promise<void>;
  /** Makes what is held of its partner in its bucket so much older, as it is counted. */
  ageHeld(claim: ShownClaim, ms: number): Promise<void>;
  /** What the store keeps of a claim for its day, in bytes by its own count. */
  bytes(txnId: TxnId): Promise<number>;
  /**
   * The names and values of it, where `bytes` counts memory: an allocator gives a few more to one
   * of two that are alike.
   */
  valueBytes?(txnId: TxnId): Promise<number>;
  /** The way by which `claims` and walks reach the store. */
  relay: TestRelay;
};

/** Opens an empty store that is closed after the test; times in milliseconds. */
export type OpenClaims = (
  test: TestContext,
  limits: Pick<ClaimTimes, 'leaseMs' | 'lifeMs'> & Partial<ClaimTimes & PartnerLimits>,
) => Promise<ClaimsUnderTest>;

export const hourMs = 3_600_000;

/**
 * Nothing ends while the test runs, unless the claim is made older; a busy machine is waited for.
 */
export const lasting = {
  leaseMs: hourMs,
  lifeMs: 24 * hourMs,
  shownMs: hourMs,
  answerTimeoutMs: 120_000,
};

/** A request for an id of its own; the same twice when given what the first one was. */
export function aClaim(wish: Partial<ClaimRequest> = {}): ClaimRequest {
  const partnerId = 'acme' as PartnerId;
  const key = randomBytes(8).toString('hex') as IdempotencyKey;
  const txnId = wish.txnId ?? deriveTxnId('payment', partnerId, key);
  return {
    txnId,
    partnerId,
    kind: 'payment',
    responseVersion: 3,
    recordKey: txnId,
    fingerprint: aFingerprint(),
    acceptedAt: new Date(1_700_000_000_123),
    shown: '{"status":"pending","description":"Schöne Grüße ✓ \\u0000"}',
    ...wish,
  };
}

export function aFingerprint(): Fingerprint {
  return randomBytes(32).toString('hex') as Fingerprint;
}

/** The request was answered before, and its answer is made of what its first claim settled. */
export function expectAnswered(actual: ClaimOutcome, first: FirstClaim): void {
  const { acceptedAt, responseVersion } = expectOutcome(actual, 'completed');
  const { acceptedAt: firstAt, responseVersion: firstVersion } = first;
  assert.deepEqual([acceptedAt, responseVersion], [firstAt, firstVersion]);
}

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

/** A request that was claimed and completed. */
export async function complete(claims: Claims, request: ClaimRequest): Promise<void> {
  await warmUp(claims, request);
  const { token } = expectOutcome(await claims.claim(request), 'claimed');
  assert.equal(await claims.complete({ ...request, token }), 'completed');
}

/** All that a whole walk gives, sorted, and how many claims each step gave. */
export async function wholeWalk(
  walk: ClaimWalk,
  { limit, between }: { limit: number; between?: () => Promise<unknown> },
): Promise<{ claims: CompletedClaim[]; steps: number[] }> {
  const found = new Map<TxnId, CompletedClaim>();
  const steps: number[] = [];
  for (let after: string | undefined; ;) {
    const { claims, next } = await walk.walk({ limit, ...(after !== undefined && { after }) });
    for (const claim of claims) found.set(claim.txnId, claim);
    steps.push(claims.length);
    if (next === undefined) return { claims: [...found.values()].sort(byId), steps };
    after = next;
    await between?.();
  }
}

/** What a walk gives of requests that were completed. */
export function walked(requests: readonly ClaimRequest[]): CompletedClaim[] {
  return requests
    .map(({ txnId, partnerId, fingerprint, acceptedAt, recordKey }) => {
      return { txnId, partnerId, fingerprint, acceptedAt, recordKey };
    })
    .sort(byId);
}

const byId = (one: CompletedClaim, other: CompletedClaim) => (one.txnId < other.txnId ? -1 : 1);
