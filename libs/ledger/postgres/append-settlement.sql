-- Writes what a settlement comes to: its entry, and the event that tells of it.
--
-- $1 txn id, $2 debit account or null when no money moves, $3 credit account, $4 amount,
-- $5 currency, $6 event id, $7 event type, $8 partner, $9 bucket, $10 sequence, $11 payload,
-- $12 traceparent, $13 the payment that orders the event. It runs in the transaction of settle.sql or
-- settle-refund.sql, under the payment's lock, so the order id it draws never runs against the
-- sequence.
-- Always one row.
WITH moved AS (
  INSERT INTO ledger.entries (txn_id, debit_account, credit_account, amount, currency)
  SELECT $1::uuid, $2::text, $3::text, $4::bigint, $5::text
  WHERE $2::text IS NOT NULL
)
INSERT INTO ledger.outbox (
  event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
)
VALUES ($6, $7, $1::uuid, $13::uuid, $8, $9, $10, $11, $12)
RETURNING order_id
