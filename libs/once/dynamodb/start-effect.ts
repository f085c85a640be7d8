import type { OwnerToken } from '@triplock/claims';
import {
  leavesAt,
  type Condition,
  type Item,
  type Moment,
  type Table,
} from '@triplock/claims-dynamodb';
import type { OnceKey } from '../effect.ts';
import type { StartOutcome } from '../once-store.ts';

// A write that is refused saw a newer item, and the start is decided again by that.
const refusalsMax = 5;

/** One start, by its own token. */
export type StartedStep = OnceKey & { leaseMs: number; token: OwnerToken };

/** The key of an effect's item. The length says where the scope ends. */
export function effectId(namespace: string, { scope, key }: Pick<OnceKey, 'scope' | 'key'>) {
  return `${namespace}#once#${scope.length}#${scope}#${key}`;
}

/**
 * Starts an effect: looks, decides, and writes under the condition that the item is still what was
 * decided by. Only a start writes.
 */
export async function startEffect(
  table: Table,
  namespace: string,
  step: StartedStep,
): Promise<StartOutcome> {
  const id = effectId(namespace, step);
  let found = await table.get(id);
  for (let refused = 0; refused < refusalsMax; refused += 1) {
    const decision = decideStart(found, { step, now: table.now() });
    if (decision.outcome !== 'free') return decision;
    const item = itemOf(id, { step, now: table.now(), taken: decision.taken, found });
    const written = await table.put(item, unchanged(found));
    if (written.outcome === 'written') return startedAs(item, step.token);
    found = written.item;
  }
  throw new Error(`refused ${refusalsMax} times in a row`);
}

type StartDecision = StartOutcome | { outcome: 'free'; taken: Item | undefined };

/** In the order in which claims are decided, and with its care about time. */
function decideStart(
  item: Item | undefined,
  { step, now }: { step: StartedStep; now: Moment },
): StartDecision {
  if (item === undefined || Number(item['expires_at']) <= now.earliest) {
    return { outcome: 'free', taken: undefined };
  }
  if (item['fingerprint'] !== step.fingerprint) return { outcome: 'reused' };
  const state = String(item['state']);
  if (state === 'completed' || state === 'failed') {
    return { outcome: state, result: String(item['result']) };
  }
  // Only this very start has the token: its write was done, and the client sent it again.
  if (item['owner'] === step.token) return startedAs(item, step.token);
  const leaseLeftMs = Number(item['lease_until']) - now.earliest;
  if (state === 'in-flight' && leaseLeftMs > 0) return { outcome: 'in-flight', leaseLeftMs };
  return { outcome: 'free', taken: item };
}

/** The item of a start; one that takes over keeps how long the key lives. */
function itemOf(
  id: string,
  start: {
    step: StartedStep;
    now: Moment;
    taken: Item | undefined;
    /** Also one whose life is over. */
    found: Item | undefined;
  },
): Item {
  const { step, now, taken, found } = start;
  const expiresAt = Number(taken?.['expires_at'] ?? now.latest + step.keepMs);
  return {
    id,
    fingerprint: step.fingerprint,
    state: 'in-flight',
    owner: step.token,
    // The service's time, and more than the last one: so it grows also after DynamoDB has deleted
    // the item, which it does an hour after its life at the earliest.
    fence: Math.max(now.latest, Number(found?.['fence'] ?? 0) + 1),
    lease_until: now.latest + step.leaseMs,
    expires_at: expiresAt,
    leaves_at: leavesAt(expiresAt),
  };
}

/** Every start has another fence, and every end another state; a renewal moves the lease. */
function unchanged(found: Item | undefined): Condition {
  if (found === undefined) return { condition: 'attribute_not_exists(#id)', values: {} };
  return {
    condition: '#fence = :fence AND #state = :state AND #lease_until = :until',
    values: {
      ':fence': found['fence']!,
      ':state': found['state']!,
      ':until': found['lease_until']!,
    },
  };
}

function startedAs(item: Item, token: OwnerToken): StartOutcome {
  return { outcome: 'started', token, fence: BigInt(item['fence'] as number) };
}
