-- Remembers payments and refunds of the accepted topic.
--
-- $1 a JSON array of objects with the fields below; `payment_id` is a refund's, which has no
-- currency and may have no amount.
-- Nothing happens for a request that is known. Sorted by id, so that two batches that share ids
-- in opposite order do not deadlock.
INSERT INTO accepted (
  txn_id, fingerprint, kind, partner_id, payment_id, currency, amount, kafka_partition, kafka_offset
)
SELECT
  txn_id, decode(fingerprint, 'hex'), kind, partner_id, payment_id, currency, amount,
  kafka_partition, kafka_offset
FROM json_to_recordset($1::json) AS record (
  txn_id uuid, fingerprint text, kind text, partner_id text, payment_id uuid, currency text,
  amount bigint, kafka_partition integer, kafka_offset bigint
)
ORDER BY txn_id, fingerprint
ON CONFLICT (txn_id, fingerprint) DO NOTHING
