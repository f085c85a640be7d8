import type { AuditedConsumer } from '@triplock/testing/test';

const notify: AuditedConsumer['effect'] = async (tx, events) => {
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

/** What the notifier is audited by. */
export const audited: AuditedConsumer = {
  effect: notify,
  harms: {},
  unharmed: {},
  denied: [
    'SELECT FROM ledger.transactions',
    'UPDATE notifier.deliveries SET body = body',
    'DELETE FROM notifier.deliveries',
    'DELETE FROM notifier.inbox',
    'SELECT FROM partners.settlement_batches',
    'SELECT FROM partners.api_keys',
  ],
};
