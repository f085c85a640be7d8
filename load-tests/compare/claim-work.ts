import { randomBytes } from 'node:crypto';
import type { ClaimRequest, Claims } from '@triplock/claims';
import { bucketCount, type StoredAnswer } from '@triplock/contracts';
import {
  deriveTxnId,
  type Fingerprint,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';

/** As long as what a payment shows and is answered with. */
const shown = JSON.stringify({
  ...{ id: '37585521-60c9-8d90-a37f-2e1b8a7081e6', object: 'payment', status: 'pending' },
  ...{ amount: 1_999, currency: 'EUR', reference: 'order-1001', metadata: { basket: '7f3a' } },
});
const answer: StoredAnswer = {
  status: 202,
  location: '/v1/payments/37585521-60c9-8d90-a37f-2e1b8a7081e6',
  body: shown,
};

/** A claim that was never made before. */
export function aFreshClaim(): ClaimRequest {
  const partnerId = 'acme' as PartnerId;
  const key = randomBytes(16).toString('hex') as IdempotencyKey;
  return {
    txnId: deriveTxnId('payment', partnerId, key),
    partnerId,
    fingerprint: randomBytes(32).toString('hex') as Fingerprint,
    acceptedAt: new Date(),
    shown,
  };
}

/** Has every bucket remember without a gap, as on a new system. */
export async function warmUp(claims: Claims): Promise<void> {
  for (let bucket = 0; bucket < bucketCount; bucket += 1) {
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: '{}', warm: true });
  }
}

/** Claims and completes, and gives how long the claim alone took, milliseconds. */
export async function claimAndComplete(claims: Claims, request: ClaimRequest): Promise<number> {
  const began = performance.now();
  const claimed = await claims.claim(request);
  const tookMs = performance.now() - began;
  if (claimed.outcome !== 'claimed') throw new Error(`a fresh claim is ${claimed.outcome}`);
  const { txnId } = request;
  const completed = await claims.complete({ txnId, token: claimed.token }, answer);
  if (completed !== 'completed') throw new Error('a completion is lost');
  return tookMs;
}

/** Does the work again and again, so many at once, until the time is over or the signal aborted. */
export async function keepBusy(
  { atOnce, ms, signal }: { atOnce: number; ms: number; signal: AbortSignal },
  work: () => Promise<void>,
): Promise<void> {
  const until = performance.now() + ms;
  const worker = async () => {
    while (performance.now() < until && !signal.aborted) await work();
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  signal.throwIfAborted();
}
