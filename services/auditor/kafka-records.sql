-- What the auditor keeps of Kafka's topics: evidence that is only added to, each record once.

-- name: recordAccepted
-- Remembers payments and refunds of the accepted topic.
--
-- $1 a JSON array of objects with the fields below; `payment_id` is a refund's, which has no
-- currency and may have no amount. `details` is text, as the ledger keeps it. Nothing happens for a
-- request that is known: of two in a batch the first stays, as in the ledger. Sorted by id, so that
-- two batches that share ids in opposite order do not deadlock. A row for each partition with
-- something new: its first offset.
WITH added AS (
  INSERT INTO accepted (
    txn_id, fingerprint, kind, partner_id, payment_id, currency, amount, rest, kafka_partition,
    kafka_offset
  )
  SELECT
    txn_id, decode(fingerprint, 'hex'), kind, partner_id, payment_id, currency, amount,
    auditor.hash_rest(response_version, accepted_at, payment_method, reference, details),
    kafka_partition, kafka_offset
  FROM json_to_recordset($1::json) AS record (
    txn_id uuid, fingerprint text, kind text, partner_id text, payment_id uuid, currency text,
    amount bigint, response_version integer, accepted_at timestamptz, payment_method text,
    reference text, details text, kafka_partition integer, kafka_offset bigint
  )
  ORDER BY txn_id, fingerprint, kafka_offset
  ON CONFLICT (txn_id, fingerprint) DO NOTHING
  RETURNING kafka_partition, kafka_offset
)
SELECT kafka_partition AS partition, min(kafka_offset) AS first FROM added GROUP BY 1

-- name: recordRefusedRecords
-- Remembers records of the accepted topic that are no payment.
--
-- $1 a JSON array of objects with the fields below.
-- Nothing happens for a record that is known. A row for each partition with something new: its
-- first offset.
WITH added AS (
  INSERT INTO accepted_refused (topic, kafka_partition, kafka_offset, reason, detail)
  SELECT topic, kafka_partition, kafka_offset, reason, detail
  FROM json_to_recordset($1::json) AS record (
    topic text, kafka_partition integer, kafka_offset bigint, reason text, detail text
  )
  ON CONFLICT (topic, kafka_partition, kafka_offset) DO NOTHING
  RETURNING kafka_partition, kafka_offset
)
SELECT kafka_partition AS partition, min(kafka_offset) AS first FROM added GROUP BY 1

-- name: recordDeadLetters
-- Remembers dead letters by the record they were.
--
-- $1 a JSON array of objects with the fields below; ids are null for what is no payment.
-- Nothing happens for a record that is known as dead.
INSERT INTO dead_letters (topic, kafka_partition, kafka_offset, reason, txn_id, fingerprint)
SELECT topic, kafka_partition, kafka_offset, reason, txn_id, decode(fingerprint, 'hex')
FROM json_to_recordset($1::json) AS dead_letter (
  topic text, kafka_partition integer, kafka_offset bigint, reason text,
  txn_id uuid, fingerprint text
)
ORDER BY topic, kafka_partition, kafka_offset
ON CONFLICT (topic, kafka_partition, kafka_offset) DO NOTHING
