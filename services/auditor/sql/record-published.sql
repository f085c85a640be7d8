-- Counts one delivery of an event.
--
-- $1 event id, $2 type, $3 transaction id, $4 payment id, $5 partner id, $6 sequence or null,
-- $7 payload hash, $8 currency and $9 amount, each null where the event has none.
-- Always one row: how many copies there are now, and the hash of the first.
INSERT INTO published
  (event_id, event_type, txn_id, payment_id, partner_id, sequence, payload_hash, currency, amount)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (event_id) DO UPDATE SET
  copies = published.copies + 1,
  altered = published.altered + (published.payload_hash <> excluded.payload_hash)::integer,
  last_seen = now()
RETURNING copies, payload_hash AS known_hash
