import { createHash } from 'node:crypto';
import { encodePaymentEvent, eventOf, type PaymentEvent } from '@triplock/contracts';
import { openInbox, type Effect, type ReceivedEvent } from '@triplock/inbox';
import type { EventId } from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import type { TestDatabase } from '@triplock/testing';
import { recordPublished } from '../published.ts';

/** The database as each owner sees it. */
export type Owners = ReturnType<typeof ownersOf>;

/** Opens a test's database as each owner, and as one who may do anything. */
export function ownersOf(store: TestDatabase) {
  return {
    ledger: store.open('triplock_ledger'),
    notifier: store.open('triplock_notifier'),
    settlement: store.open('triplock_settlement'),
    auditor: store.open('triplock_auditor'),
    admin: store.open(),
  };
}

/** What the subscribers do with an event. */
export function eventHops(owners: Owners) {
  return {
    see: (event: PaymentEvent) => recordPublished(owners.auditor, [received(event)]),
    notify: inboxHop(owners.notifier, 'partner-notifier', notify),
    addUp: inboxHop(owners.settlement, 'settlement-feed', addUp),
    deliver: (eventId: EventId) =>
      owners.notifier.query(
        `UPDATE deliveries SET state = 'delivered', finished_at = now() WHERE event_id = $1`,
        [eventId],
      ),
  };
}

/** What a consumer does with an event, behind its inbox. */
function inboxHop(database: Database, consumer: string, effect: Effect<PaymentEvent>) {
  const inbox = openInbox(database, consumer);
  return async (event: PaymentEvent) => {
    const [outcome] = await inbox.receive([received(event)], effect);
    return outcome!;
  };
}

const notify: Effect<PaymentEvent> = async (tx, events) => {
  for (const { payload } of events) {
    const { event_id: eventId, partner_id: partner, txn_id: txnId } = payload;
    const { type, timestamp, sequence, data } = payload;
    const body = JSON.stringify({ type, timestamp, sequence, data });
    await tx.query(
      'INSERT INTO deliveries (event_id, partner_id, txn_id, body) VALUES ($1, $2, $3, $4)',
      [eventId, partner, txnId, body],
    );
  }
};

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

/** An event as an inbox gets it. */
function received(event: PaymentEvent): ReceivedEvent<PaymentEvent> {
  const { payload } = encodePaymentEvent(event);
  return { ...eventOf(event), payloadHash: createHash('sha256').update(payload).digest('hex') };
}
