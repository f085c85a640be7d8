import type { StoredAnswer } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import type {
  BucketMarker,
  ClaimOutcome,
  Cold,
  BucketEpoch,
  OwnerToken,
  PendingRead,
} from '@triplock/claims';

type MarkerRow = { epoch: string | null; barrier: string | null };

/** A row of claim.sql, as its contract names it. */
export type ClaimRow = MarkerRow & {
  outcome: ClaimOutcome['outcome'];
  accepted_at: Date;
  status: number;
  location: string;
  body: string;
  lease_left_ms: number;
  life_left_ms: number;
};

/** What a claim came to, and for how long its answer is kept, milliseconds. */
export type TimedOutcome =
  | Exclude<ClaimOutcome, { outcome: 'completed' }>
  | { outcome: 'completed'; answer: StoredAnswer; lifeLeftMs: number };

/** A row of read.sql, as its contract names it. */
export type ReadRow = MarkerRow & {
  outcome: PendingRead['outcome'];
  partner: string;
  shown: string;
  accepted_at: Date;
};

/** What the row of a claim says. */
export function claimOutcome(row: ClaimRow, token: OwnerToken): TimedOutcome {
  const { outcome, status, location, body } = row;
  switch (outcome) {
    case 'claimed':
      return { outcome, token, acceptedAt: row.accepted_at };
    case 'completed':
      return { outcome, answer: { status, location, body }, lifeLeftMs: row.life_left_ms };
    case 'reused':
      return { outcome };
    case 'in-flight':
      return { outcome, leaseLeftMs: Math.ceil(row.lease_left_ms) };
    case 'cold':
      return cold(row);
    default:
      return outcome satisfies never;
  }
}

/** What the row of a read says. */
export function pendingRead(row: ReadRow): PendingRead {
  const { outcome } = row;
  switch (outcome) {
    case 'pending': {
      const { shown, accepted_at: acceptedAt } = row;
      return { outcome, partnerId: row.partner as PartnerId, shown, acceptedAt };
    }
    case 'unknown':
      return { outcome };
    case 'cold':
      return cold(row);
    default:
      return outcome satisfies never;
  }
}

/** What the row of note-loss.sql says. */
export function bucketMarker({ epoch, barrier }: MarkerRow): BucketMarker {
  return { epoch: epoch as BucketEpoch, ...(barrier !== null && { barrier }) };
}

function cold({ epoch, barrier }: MarkerRow): Cold {
  return {
    outcome: 'cold',
    ...(epoch !== null && { epoch: epoch as BucketEpoch }),
    ...(barrier !== null && { barrier }),
  };
}
