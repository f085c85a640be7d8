import type { PaymentEvent } from '@triplock/contracts';
import type { Effect } from '@triplock/inbox';
import { kinds, type EventType } from '@triplock/payments';
import { loadSql } from '@triplock/postgres';

const addToBatchesSql = loadSql(import.meta.url, 'sql/add-to-batches.sql');

/**
 * The effect of the settlement feed: each payment, capture and refund that succeeded is added to
 * its partner's batch of the day and the currency, in the transaction that remembers the event.
 *
 * The day is the UTC day of the event's own time, when the ledger settled it. So a replay comes to
 * the same batches whenever it runs, and no day is ever closed: what comes late is added to its own
 * day. A crash before the commit adds nothing; after it, the redelivered event is known.
 */
export const addToBatches: Effect<PaymentEvent> = async (tx, events) => {
  const moving = events.map(({ payload }) => payload).filter(movesMoney);
  if (moving.length === 0) return;
  await tx.query(addToBatchesSql, [
    moving.map((event) => event.partner_id),
    moving.map(dayOf),
    moving.map((event) => event.data['currency']),
    moving.map(({ type }) => movements.get(type) === 'given back'),
    moving.map((event) => event.data['amount']),
  ]);
};

/** What the end of a transaction adds to: by its event, of the kinds that are settled. */
const movements = new Map<EventType | undefined, 'paid' | 'given back'>(
  Object.values(kinds).flatMap(({ settlement, ends }) =>
    settlement === undefined ? [] : [[ends.succeeded, settlement] as const],
  ),
);

function movesMoney({ type }: PaymentEvent): boolean {
  return movements.has(type);
}

/** An event's time is in UTC. */
function dayOf({ timestamp }: PaymentEvent): string {
  return timestamp.slice(0, 'yyyy-mm-dd'.length);
}
