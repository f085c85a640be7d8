import type { ClaimOutcome, ClaimRequest, OwnerToken } from '@triplock/claims';
import type { Table, Written } from './connect-dynamo.ts';
import { decideClaim, type Decision } from './decide-claim.ts';
import { leavesAt, type Item } from './item.ts';
import { lookUp, recordOf, type Layout } from './look-up.ts';

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
  // The ledger's word holds only in the epoch it was asked in.
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
  onWrite();
  return table.update(recordOf(layout, request.txnId), {
    change:
      'SET #state = :mine, #owner = :token, #lease_until = :until, #version = #version + :one',
    // The version is another after every takeover, and the state after a release or a completion.
    condition: '#version = :version AND #state = :state',
    values: {
      ...{ ':mine': 'in-flight', ':token': token, ':until': latest + layout.leaseMs, ':one': 1 },
      ...{ ':version': version, ':state': state },
    },
  });
}
