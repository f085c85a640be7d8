import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { System } from '../system.ts';

/** Guard 1's record of a payment, as Redis holds it. */
export type ClaimSeen = {
  state: string;
  partner: string;
  fingerprint: string;
  acceptedAt: Date;
  /** How long the record still lives. */
  leftMs: number;
  /** The stored answer, once there is one. */
  answer: { status: number; body: string } | undefined;
};

/** Where Redis keeps a payment's claim. */
export function claimKey({ names }: Pick<System, 'names'>, txnId: TxnId): string {
  return `{${names.claims}:${bucketOf(txnId, bucketCount)}}:claim:${txnId}`;
}

/** Reads a claim's record past the gateway; nothing when Redis has none or claims are kept elsewhere. */
export async function readClaim(
  { redis, names, endpoints }: Pick<System, 'redis' | 'names' | 'endpoints'>,
  txnId: TxnId,
): Promise<ClaimSeen | undefined> {
  // What an earlier choice of store left there answers nobody.
  if (endpoints.claims !== 'redis') return undefined;
  const key = claimKey({ names }, txnId);
  const [record, leftMs] = await Promise.all([redis.hgetall(key), redis.pttl(key)]);
  if (record['fingerprint'] === undefined) return undefined;
  const { state = '', partner = '', fingerprint, accepted_at: acceptedAt } = record;
  const { status, body } = record;
  return {
    state,
    partner,
    fingerprint,
    acceptedAt: new Date(Number(acceptedAt)),
    leftMs,
    answer: status === undefined ? undefined : { status: Number(status), body: body ?? '' },
  };
}
