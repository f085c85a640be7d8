import { randomUUID } from 'node:crypto';
import type { OwnerToken } from '@triplock/claims';
import {
  openTable,
  type Condition,
  type DynamoAddress,
  type Written,
} from '@triplock/claims-dynamodb';
import type { Logger } from '@triplock/runtime';
import type { EffectOwner, OpenedOnceStore } from '../once-store.ts';
import { effectId, startEffect } from './start-effect.ts';

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
        ...{ ...rest.values, ':token': owner.token, ':now': earliest },
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
