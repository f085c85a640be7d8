import type { Message } from '../pubsub.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';

/** An event of the outbox, as a dispatcher publishes it, without its ordering key. */
export type EventMessage = Message & { txnId: string };

type Row = {
  event_id: string;
  event_type: string;
  txn_id: string;
  payment_id: string;
  sequence: number | null;
  payload: string;
  traceparent: string;
};

const sql = `
  SELECT event_id, event_type, txn_id, payment_id, sequence, payload, traceparent
  FROM ledger.outbox WHERE txn_id = ANY ($1::uuid[]) ORDER BY order_id`;

/** The payments' events, one each, in the order in which they were made. Waits for the workers. */
export async function eventMessagesOf(
  system: System,
  txnIds: readonly string[],
): Promise<EventMessage[]> {
  const rows = await until({
    what: 'the events of the payments in the outbox',
    signal: system.signal,
    check: async () => {
      const found = await system.ledger.query<Row>(sql, [txnIds]);
      return found.length >= txnIds.length && found;
    },
  });
  return rows.map(({ payload, ...row }) => {
    const given = Object.entries(row).filter(([, value]) => value !== null);
    const attributes = Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
    return { txnId: row.txn_id, data: payload, attributes };
  });
}
