import type { StoredAnswer } from '@triplock/contracts';
import type { ClaimOwner } from '@triplock/claims';
import type { Condition, DynamoConnection, Written } from './connect-dynamo.ts';
import { recordOf, type Layout } from './look-up.ts';

/** What only the last owner may do, while the record lives. */
export function ownersSteps(dynamo: DynamoConnection, layout: Layout) {
  const end = (owner: ClaimOwner, step: Condition & { change: string }): Promise<Written> =>
    dynamo.inTime(async (table) => {
      // A connection that has asked nothing yet does not know the time.
      await table.tableId();
      const { earliest } = table.now();
      const values = { ...step.values, ':token': owner.token, ':now': earliest };
      return table.update(recordOf(layout, owner.txnId), { ...step, values });
    });
  return {
    async complete(owner: ClaimOwner, { status, location, body }: StoredAnswer) {
      const answer = { ':status': status, ':location': location, ':body': body };
      const { outcome } = await end(owner, {
        change: 'SET #state = :to, #status = :status, #location = :location, #body = :body',
        condition: '#owner = :token AND #expires_at > :now',
        values: { ':to': 'completed', ...answer },
      });
      return outcome === 'written' ? 'completed' : 'lost';
    },
    async release(owner: ClaimOwner) {
      const { outcome } = await end(owner, {
        change: 'SET #state = :to',
        condition: '#owner = :token AND #expires_at > :now AND #state <> :completed',
        values: { ':to': 'released', ':completed': 'completed' },
      });
      return outcome === 'written' ? 'released' : 'lost';
    },
  } as const;
}
