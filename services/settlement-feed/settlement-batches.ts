import type { PaymentEvent } from '@triplock/contracts';
import type { Effect } from '@triplock/inbox';
import { kinds, transactionKinds, type EventType, type TransactionKind } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import type { Pass } from '@triplock/runtime';

const addToBatchesSql = loadSql(import.meta.url, 'sql/add-to-batches.sql');
const closeDaysSql = loadSql(import.meta.url, 'sql/close-days.sql');

/**
 * The effect of the settlement feed: each payment, capture and refund that succeeded is a line of
 * its partner, and added to the batch of the day and the currency, in the transaction that
 * remembers the event.
 *
 * The day is the UTC day of the event's own time, when the ledger settled it, or the first that is
 * open if that is closed. A crash before the commit adds nothing; after it, the redelivered event
 * is known.
 */
export const addToBatches: Effect<PaymentEvent> = async (tx, events) => {
  const moving = events.flatMap(({ payload }) => {
    const moves = movements.get(payload.type);
    return moves === undefined ? [] : [{ ...payload, ...moves }];
  });
  if (moving.length === 0) return;
  await tx.query(addToBatchesSql, [
    moving.map((event) => event.partner_id),
    moving.map((event) => event.txn_id),
    moving.map((event) => event.kind),
    moving.map((event) => event.data['currency']),
    moving.map(({ data, sign }) => sign * Number(data['amount'])),
    moving.map((event) => event.timestamp),
  ]);
};

/** What the end of a transaction adds to: by its event, of the kinds that are settled. */
const movements = new Map<EventType | undefined, { kind: TransactionKind; sign: 1 | -1 }>(
  transactionKinds.flatMap((kind) => {
    const { settlement, ends } = kinds[kind];
    if (settlement === undefined) return [];
    return [[ends.succeeded, { kind, sign: settlement === 'paid' ? 1 : -1 }] as const];
  }),
);

/** What is known of the days since they were looked at. */
export type DaysSeen = {
  /** When that was, and when the first day that is open ends; null before any was closed. */
  lookedAt: Date;
  openUntil: Date | null;
};

/**
 * A pass that closes the days that are over for so long, once all that was told until then is in
 * its batch. It looks at some minutes at a time, and comes again at once while there are more.
 */
export function closeDays(
  database: Queryable,
  { afterMs, seen }: { afterMs: number; seen(days: DaysSeen): void },
): Pass {
  return async () => {
    type Row = { openUntil: Date | null; more: boolean };
    const [row] = await database.query<Row>(closeDaysSql, [afterMs]);
    seen({ lookedAt: new Date(), openUntil: row!.openUntil });
    return row!.more ? 1 : 0;
  };
}
