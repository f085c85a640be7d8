-- Makes the row of a refund, waiting for its payment.
--
-- $1 id, $2 partner, $3 idempotency key, $4 fingerprint in hex, $5 response version, $6 payment id,
-- $7 the amount asked for or null for all that is left, $8 details as JSON text, $9 created at,
-- $10 traceparent, $11 milliseconds after which the resolver takes it up while it is pending.
-- A row: this statement made the refund. No row: its id is taken.
INSERT INTO ledger.transactions (
  txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, payment_id,
  requested_amount, details, created_at, traceparent, state, events, due_at
)
VALUES (
  $1, 'refund', $2, $3, decode($4, 'hex'), $5, $6, $7, $8, $9, $10, 'pending', 0,
  now() + $11::integer * interval '1 millisecond'
)
ON CONFLICT DO NOTHING
RETURNING txn_id
