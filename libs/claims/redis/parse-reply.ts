import type { PartnerId } from '@triplock/payments';
import type {
  BucketMarker,
  ClaimOutcome,
  Cold,
  BucketEpoch,
  OwnerToken,
  PendingRead,
} from '../claims.ts';

/** What claim.lua replied, as its contract names it. */
export function parseClaimReply(reply: unknown, token: OwnerToken): ClaimOutcome {
  const [outcome, ...rest] = reply as [string, ...(string | number)[]];
  switch (outcome) {
    case 'claimed':
      return { outcome, token, acceptedAt: new Date(Number(rest[0])) };
    case 'completed': {
      const [status, location, body] = rest;
      const answer = { status: Number(status), location: String(location), body: String(body) };
      return { outcome, answer };
    }
    case 'reused':
      return { outcome };
    case 'in-flight':
      return { outcome, leaseLeftMs: Number(rest[0]) };
    case 'cold':
      return parseCold(rest);
  }
  throw new Error(`claim.lua replied ${outcome}`);
}

/** What read.lua replied, as its contract names it. */
export function parseReadReply(reply: unknown): PendingRead {
  const [outcome, ...rest] = reply as [string, ...string[]];
  switch (outcome) {
    case 'pending': {
      const [partner, shown, acceptedAt] = rest;
      const partnerId = partner as PartnerId;
      return { outcome, partnerId, shown: shown!, acceptedAt: new Date(Number(acceptedAt)) };
    }
    case 'unknown':
      return { outcome };
    case 'cold':
      return parseCold(rest);
  }
  throw new Error(`read.lua replied ${outcome}`);
}

/** What note-loss.lua replied, as its contract names it. */
export function parseNoteReply(reply: unknown): BucketMarker {
  const [epoch, barrier] = reply as [BucketEpoch, string];
  return { epoch, ...(barrier ? { barrier } : {}) };
}

function parseCold([epoch, barrier]: readonly (string | number)[]): Cold {
  return {
    outcome: 'cold',
    ...(epoch ? { epoch: String(epoch) as BucketEpoch } : {}),
    ...(barrier ? { barrier: String(barrier) } : {}),
  };
}
