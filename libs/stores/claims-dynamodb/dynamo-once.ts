import { randomUUID } from 'node:crypto';
import type { OwnerToken } from '@triplock/claims';
import type { Logger } from '@triplock/runtime';
import type { EffectOwner, OnceKey, OpenedOnceStore, StartOutcome } from '@triplock/once';
import { leavesAt, openTable } from './claims-table.ts';
import type { Condition, DynamoAddress, Item, Table, Written } from './dynamo-client.ts';
import type { Moment } from './service-clock.ts';

/** Where effects are remembered. */
export type DynamoOnceOptions = DynamoAddress & {
  /** Begins every key, so that several systems can share a table. */
  namespace: string;
  logger: Logger;
  /** How long one step may take, milliseconds; 1.5 s by default. */
  answerTimeoutMs?: number;
};

/**
 * Effects remembered in DynamoDB, one item for each, in a table that createClaimsTable made; claims
 * may be in it too. Time is the service's, known as openDynamoClaims tells, so a
 * takeover waits for about a second more than the lease at most. A step that is not answered in
 * time rejects with a ClaimsUnavailableError.
 *
 * @throws DynamoTableError when the table is there and DynamoDB may delete keys early.
 */
export async function openDynamoOnce(options: DynamoOnceOptions): Promise<OpenedOnceStore> {
  const { namespace } = options;
  const dynamo = await openTable(options);
  /** Writes what only the last owner may, while the key lives. */
  const change = (owner: EffectOwner, step: OwnersChange): Promise<Written> =>
    dynamo.inTime(async (table) => {
      // A connection that has asked nothing yet does not know the time.
      await table.tableId();
      const { earliest, latest } = table.now();
      const { leaseMs, ...rest } = step;
      const values = {
        ...rest.values,
        ':token': owner.token,
        ':now': earliest,
        ...(leaseMs !== undefined && { ':until': latest + leaseMs }),
      };
      const condition = `#owner = :token AND #expires_at > :now AND ${step.condition}`;
      return table.update(effectId(namespace, owner), { change: step.change, condition, values });
    });

  return {
    start: (step) => {
      const token = randomUUID() as OwnerToken;
      return dynamo.inTime((table) => startEffect(table, namespace, { ...step, token }));
    },
    async renew(owner, leaseMs) {
      const { outcome } = await change(owner, {
        change: 'SET #lease_until = :until',
        condition: '#state = :mine',
        values: { ':mine': 'in-flight' },
        leaseMs,
      });
      return outcome === 'written' ? 'renewed' : 'lost';
    },
    async finish(owner, { state, result = '' }) {
      const { outcome } = await change(owner, {
        change: 'SET #state = :to, #result = :result',
        condition: '(#state = :mine OR #state = :to)',
        values: { ':mine': 'in-flight', ':to': state, ':result': result },
      });
      return outcome === 'written' ? 'finished' : 'lost';
    },
    close: () => Promise.resolve(dynamo.close()),
  };
}

/** A lease, where one is given, lasts from now on. */
type OwnersChange = Condition & { change: string; leaseMs?: number };

/** One start, by its own token. */
type StartedStep = OnceKey & { leaseMs: number; token: OwnerToken };

/** The key of an effect's item. The length says where the scope ends. */
export function effectId(namespace: string, { scope, key }: Pick<OnceKey, 'scope' | 'key'>) {
  return `${namespace}#once#${scope.length}#${scope}#${key}`;
}

/**
 * Starts an effect: looks, decides, and writes under the condition that the item is still what was
 * decided by. Only a start writes. One that is refused met a newer item, and is decided again by
 * what is there then: each time somebody else's step was done, and the time that a step may take
 * ends it.
 */
async function startEffect(
  table: Table,
  namespace: string,
  step: StartedStep,
): Promise<StartOutcome> {
  const id = effectId(namespace, step);
  let found = await table.get(id);
  for (;;) {
    const decision = decideStart(found, { step, now: table.now() });
    if (decision.outcome !== 'free') return decision;
    const item = itemOf(id, { step, now: table.now(), taken: decision.taken, found });
    const written = await table.put(item, unchanged(found));
    if (written.outcome === 'written') return startedAs(item, step.token);
    found = await table.get(id);
  }
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
