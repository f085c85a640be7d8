-- Remembers payments of the accepted topic.
--
-- $1 a JSON array of objects with the fields below.
-- Nothing happens for a request that is known. Sorted by id, so that two batches that share ids
-- in opposite order do not deadlock.
INSERT INTO accepted
  (txn_id, fingerprint, partner_id, currency, amount, kafka_partition, kafka_offset)
SELECT txn_id, decode(fingerprint, 'hex'), partner_id, currency, amount, kafka_partition, kafka_offset
FROM json_to_recordset($1::json) AS record (
  txn_id uuid, fingerprint text, partner_id text, currency text, amount bigint,
  kafka_partition integer, kafka_offset bigint
)
ORDER BY txn_id, fingerprint
ON CONFLICT (txn_id, fingerprint) DO NOTHING
