import {
  type BucketEpoch,
  type BucketMarker,
  type ClaimOutcome,
  type ClaimRequest,
  type Cold,
  type OwnerToken,
} from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { leavesAt } from './claims-table.ts';
import type { Item, Table, Written } from './dynamo-client.ts';
import type { Moment } from './service-clock.ts';

/** How claims lie in the table, and their times in milliseconds. */
export type Layout = { namespace: string; leaseMs: number; lifeMs: number };

/** The key of a claim's record. */
export function recordOf({ namespace }: Layout, txnId: TxnId): string {
  return `${namespace}#claim#${txnId}`;
}

/** The key of a bucket's warm marker. */
export function markerOf({ namespace }: Layout, bucket: number): string {
  return `${namespace}#marker#${bucket}`;
}

// A write that is refused saw a newer item, and the claim is decided again by that.
const refusalsMax = 5;

/** One try for a claim, by its own token. */
export type ClaimAttempt = {
  layout: Layout;
  request: ClaimRequest;
  token: OwnerToken;
  /** Called before anything is written: from then on the claim may have been made. */
  onWrite(): void;
};

/**
 * Claims an id: looks, decides, and writes under the condition that the item is still what was
 * decided by. Only a claim writes.
 */
export async function claimItem(table: Table, attempt: ClaimAttempt): Promise<ClaimOutcome> {
  const { layout, request, token } = attempt;
  const { record: found, cold } = await lookUp(table, layout, request.txnId);
  // The ledger's answer holds only in the epoch it was asked in.
  const mayBegin = cold === undefined || (cold.epoch && cold.epoch === request.ledgerCheckedIn);

  let record = found;
  for (let refused = 0; refused < refusalsMax; refused += 1) {
    const decision = decideClaim(record, { request, token, now: table.now() });
    switch (decision.outcome) {
      case 'free': {
        if (!mayBegin) return cold;
        const begun = await begin(table, attempt);
        if (begun.outcome === 'written')
          return { outcome: 'claimed', token, acceptedAt: request.acceptedAt };
        record = begun.item;
        break;
      }
      case 'take-over': {
        const { acceptedAt } = decision;
        const taken = await takeOver(table, attempt, decision);
        if (taken.outcome === 'written') return { outcome: 'claimed', token, acceptedAt };
        record = taken.item;
        break;
      }
      case 'claimed':
      case 'completed':
      case 'in-flight':
      case 'reused':
        return decision;
      default:
        return decision satisfies never;
    }
  }
  throw new Error(`refused ${refusalsMax} times in a row`);
}

function begin(table: Table, { layout, request, token, onWrite }: ClaimAttempt): Promise<Written> {
  const { earliest, latest } = table.now();
  const expiresAt = latest + layout.lifeMs;
  const item: Item = {
    id: recordOf(layout, request.txnId),
    fingerprint: request.fingerprint,
    state: 'in-flight',
    owner: token,
    version: 1,
    lease_until: latest + layout.leaseMs,
    expires_at: expiresAt,
    leaves_at: leavesAt(expiresAt),
    partner: request.partnerId,
    accepted_at: request.acceptedAt.getTime(),
    shown: request.shown,
  };
  // An item whose life is over counts as none: DynamoDB deletes by TTL days late.
  const condition = 'attribute_not_exists(#id) OR #expires_at <= :now';
  onWrite();
  return table.put(item, { condition, values: { ':now': earliest } });
}

function takeOver(
  table: Table,
  { layout, request, token, onWrite }: ClaimAttempt,
  { version, state }: Extract<Decision, { outcome: 'take-over' }>,
): Promise<Written> {
  const { latest } = table.now();
  const life = lifeFrom(latest, layout);
  onWrite();
  return table.update(recordOf(layout, request.txnId), {
    change: `SET #state = :mine, #owner = :token, #lease_until = :until, #version = #version + :one, ${life.change}`,
    // The version is another after every takeover, and the state after a release or a completion.
    condition: '#version = :version AND #state = :state',
    values: {
      ...{ ':mine': 'in-flight', ':token': token, ':until': latest + layout.leaseMs, ':one': 1 },
      ...{ ':version': version, ':state': state },
      ...life.values,
    },
  });
}

/**
 * What begins the life of a record anew, as every claim and its completion do: what is accepted
 * under it is then not forgotten sooner.
 */
export function lifeFrom(latestMs: number, { lifeMs }: Layout) {
  const expiresAt = latestMs + lifeMs;
  return {
    change: '#expires_at = :expires_at, #leaves_at = :leaves_at',
    values: { ':expires_at': expiresAt, ':leaves_at': leavesAt(expiresAt) },
  };
}

/** What a record, or that there is none, means for a claim. */
type Decision =
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
function decideClaim(
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

/**
 * What is known of an id: its record, if it lives or not, and what its bucket's silence is worth.
 */
export async function lookUp(
  table: Table,
  layout: Layout,
  txnId: TxnId,
): Promise<{ record: Item | undefined; cold: Cold | undefined }> {
  const [record, marker, tableId] = await Promise.all([
    table.get(recordOf(layout, txnId)),
    table.get(markerOf(layout, bucketOf(txnId, bucketCount))),
    table.tableId(),
  ]);
  const { lifeMs } = layout;
  return { record, cold: coldness(marker, { tableId, lifeMs, now: table.now() }) };
}

/** What a bucket's silence about an id is worth: nothing while cold, proof when `undefined`. */
function coldness(
  marker: Item | undefined,
  { tableId, lifeMs, now }: { tableId: string; lifeMs: number; now: Moment },
): Cold | undefined {
  // A marker of another table names no epoch: its time has ended.
  if (marker === undefined || marker['table_id'] !== tableId) return { outcome: 'cold' };
  if (marker['warm'] === true || Number(marker['since']) + lifeMs <= now.earliest) return undefined;
  return { outcome: 'cold', ...readMarker(marker) };
}

/** The epoch and, once it is known, the barrier of a marker. */
export function readMarker({ epoch, barrier }: Item): BucketMarker {
  return {
    epoch: epoch as BucketEpoch,
    ...(barrier !== undefined && { barrier: String(barrier) }),
  };
}
