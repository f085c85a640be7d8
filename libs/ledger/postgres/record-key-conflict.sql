-- Tells of a request that lost its key to another one.
--
-- $1 event id, $2 txn id, $3 partner, $4 bucket, $5 payload, $6 traceparent,
-- $7 the payment.
-- A row: the event is new. No row: this loser has an event already, which stays.
INSERT INTO ledger.outbox (
  event_id, event_type, txn_id, payment_id, partner_id, bucket, payload, traceparent
)
VALUES ($1, 'payment.key_conflict', $2::uuid, $7::uuid, $3, $4, $5, $6)
ON CONFLICT (event_id) DO NOTHING
RETURNING order_id
