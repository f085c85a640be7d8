import type { PaymentEvent } from '@triplock/contracts';
import { openInbox, type Effect, type ReceivedEvent } from '@triplock/inbox';
import type { Database } from '@triplock/postgres';

const addSql = `
  INSERT INTO batches AS known (partner_id, day, currency, gross, refunds, payments, refund_count)
  VALUES ($1, ($2::timestamptz AT TIME ZONE 'UTC')::date, $3, $4, $5, $6, $7)
  ON CONFLICT (partner_id, day, currency) DO UPDATE SET
    gross = known.gross + $4, refunds = known.refunds + $5,
    payments = known.payments + $6, refund_count = known.refund_count + $7`;

const addUp: Effect<PaymentEvent> = async (tx, events) => {
  for (const { payload } of events) {
    const { type, partner_id: partner, timestamp, data } = payload;
    const { amount, currency } = data;
    if (type === 'payment.succeeded') {
      await tx.query(addSql, [partner, timestamp, currency, amount, 0, 1, 0]);
    }
    if (type === 'refund.succeeded') {
      await tx.query(addSql, [partner, timestamp, currency, 0, amount, 0, 1]);
    }
  }
};

/** What the settlement feed does with an event. */
export function settlementHop(
  settlement: Database,
  received: (event: PaymentEvent) => ReceivedEvent<PaymentEvent>,
) {
  const feed = openInbox(settlement, 'settlement-feed');
  return (event: PaymentEvent) => feed.receive([received(event)], addUp);
}
