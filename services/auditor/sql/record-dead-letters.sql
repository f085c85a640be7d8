-- Remembers dead letters by the record they were.
--
-- $1 a JSON array of objects with the fields below; ids are null for what is no payment.
-- Nothing happens for a record that is known as dead.
INSERT INTO dead_letters (topic, kafka_partition, kafka_offset, reason, txn_id, fingerprint)
SELECT topic, kafka_partition, kafka_offset, reason, txn_id, decode(fingerprint, 'hex')
FROM json_to_recordset($1::json) AS letter (
  topic text, kafka_partition integer, kafka_offset bigint, reason text,
  txn_id uuid, fingerprint text
)
ORDER BY topic, kafka_partition, kafka_offset
ON CONFLICT (topic, kafka_partition, kafka_offset) DO NOTHING
