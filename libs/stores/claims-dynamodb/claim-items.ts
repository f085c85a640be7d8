import {
  type BucketEpoch,
  type BucketMarker,
  type ClaimOutcome,
  type ClaimRequest,
  type Cold,
  type FirstClaim,
  type OwnerToken,
} from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { leavesAt } from './claims-table.ts';
import type { Item, Table, Written } from './dynamo-client.ts';
import { giveBack, hold } from './held-items.ts';
import type { Moment } from './service-clock.ts';

/** How claims lie in the table, their times in milliseconds, and what a partner may hold. */
export type Layout = {
  namespace: string;
  leaseMs: number;
  lifeMs: number;
  shownMs: number;
  /** Of a partner's claims, in a bucket. */
  claimsMax: number;
};

/**
 * The key of a claim's record. A name is stored, and billed, with every item, so most attributes
 * have the letters that claim.lua of libs/claims explains. `version` grows with every owner,
 * `expires_at` ends its life, and at `leaves_at` DynamoDB may delete it.
 */
export function recordOf({ namespace }: Pick<Layout, 'namespace'>, txnId: TxnId): string {
  return `${namespace}#claim#${txnId}`;
}

/** The key of what a read shows of a claim. */
export function shownOf({ namespace }: Pick<Layout, 'namespace'>, txnId: TxnId): string {
  return `${namespace}#shown#${txnId}`;
}

/** The key of a bucket's warm marker. */
export function markerOf({ namespace }: Layout, bucket: number): string {
  return `${namespace}#marker#${bucket}`;
}

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
 * decided by. Only a claim writes. A write that is refused met a newer item, and the claim is
 * decided again by what is there then: each time somebody else's step was done, and the time that a
 * step may take ends it.
 */
export async function claimItem(table: Table, attempt: ClaimAttempt): Promise<ClaimOutcome> {
  const { layout, request, token } = attempt;
  const { record: found, cold } = await lookUp(table, layout, request.txnId);
  // The ledger's answer holds only in the epoch it was asked in.
  const mayBegin = cold === undefined || (cold.epoch && cold.epoch === request.ledgerCheckedIn);

  let record = found;
  for (;;) {
    const decision = decideClaim(record, { request, token, now: table.now() });
    switch (decision.outcome) {
      case 'free': {
        if (!mayBegin) return cold;
        const begun = await beginHeld(table, attempt);
        if (begun.outcome === 'over-limit') return begun;
        if (begun.outcome === 'written') return show(table, attempt, request);
        break;
      }
      case 'take-over': {
        const taken = await takeOver(table, attempt, decision);
        if (taken.outcome === 'written') return show(table, attempt, decision);
        break;
      }
      case 'claimed':
        return show(table, attempt, decision);
      case 'completed':
      case 'in-flight':
      case 'reused':
        return decision;
      default:
        return decision satisfies never;
    }
    record = await table.get(recordOf(layout, request.txnId));
  }
}

/**
 * What a read shows, once the claim is ours: a loser of the race, with another request, must not
 * write it. A crash before this leaves a claim that shows nothing, under which nothing is appended:
 * a read of it is told to ask again, until the request's retry takes over and writes both.
 */
async function show(
  table: Table,
  { layout, request, token }: ClaimAttempt,
  { acceptedAt, responseVersion }: FirstClaim,
): Promise<ClaimOutcome> {
  const { txnId, shown } = request;
  const ends = endingAt(table.now().latest + layout.shownMs);
  await table.put({ id: shownOf(layout, txnId), shown, ...ends });
  return { outcome: 'claimed', token, acceptedAt, responseVersion };
}

/** When an item counts as none, and when DynamoDB may delete it. */
function endingAt(expiresAt: number) {
  return { expires_at: expiresAt, leaves_at: leavesAt(expiresAt) };
}

/** Begins a claim where its partner has room for it. */
async function beginHeld(table: Table, attempt: ClaimAttempt) {
  const holder = { ...attempt.layout, claim: attempt.request };
  const held = await hold(table, holder);
  if (held.outcome === 'over-limit') return held;
  const begun = await begin(table, attempt);
  if (begun.outcome === 'refused') await giveBack(table, holder, held);
  return begun;
}

function begin(table: Table, { layout, request, token, onWrite }: ClaimAttempt): Promise<Written> {
  const { earliest, latest } = table.now();
  const { txnId, recordKey } = request;
  const item: Item = {
    id: recordOf(layout, txnId),
    f: request.fingerprint,
    s: 'in-flight',
    o: token,
    version: 1,
    l: latest + layout.leaseMs,
    ...endingAt(latest + layout.lifeMs),
    p: request.partnerId,
    k: request.kind,
    a: request.acceptedAt.getTime(),
    v: request.responseVersion,
    ...(recordKey !== txnId && { r: recordKey }),
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
    change: `SET #s = :mine, #o = :token, #l = :until, #version = #version + :one, ${life.change}`,
    // The version is another after every takeover, and the state after a release or a completion.
    condition: '#version = :version AND #s = :state',
    values: {
      ':mine': 'in-flight',
      ':token': token,
      ':until': latest + layout.leaseMs,
      ':one': 1,
      ':version': version,
      ':state': state,
      ...life.values,
    },
  });
}

/**
 * What begins the life of a record anew, as every claim and its completion do: what is accepted
 * under it is then not forgotten sooner.
 */
export function lifeFrom(latestMs: number, { lifeMs }: Pick<Layout, 'lifeMs'>) {
  const { expires_at: expiresAt, leaves_at: leaves } = endingAt(latestMs + lifeMs);
  return {
    change: '#expires_at = :expires_at, #leaves_at = :leaves_at',
    values: { ':expires_at': expiresAt, ':leaves_at': leaves },
  };
}

/** What a record, or that there is none, means for a claim. */
type Decision =
  | Exclude<ClaimOutcome, { outcome: 'cold' | 'over-limit' }>
  /** The same request, and nobody is at work: take over this version of it. */
  | ({ outcome: 'take-over'; version: number; state: string } & FirstClaim)
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
  if (record['f'] !== request.fingerprint) return { outcome: 'reused' };
  const first: FirstClaim = {
    acceptedAt: new Date(Number(record['a'])),
    responseVersion: Number(record['v']),
  };
  const state = String(record['s']);
  if (state === 'completed') return { outcome: 'completed', ...first };
  // Only this very request has the token: its write was done, and the client sent it again.
  if (record['o'] === token) return { outcome: 'claimed', token, ...first };
  const leaseLeftMs = Number(record['l']) - now.earliest;
  if (state === 'in-flight' && leaseLeftMs > 0) return { outcome: 'in-flight', leaseLeftMs };
  return { outcome: 'take-over', version: Number(record['version']), state, ...first };
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
