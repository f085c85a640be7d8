-- Remembers records of the accepted topic that are no payment.
--
-- $1 a JSON array of objects with the fields below.
-- Nothing happens for a record that is known.
INSERT INTO accepted_refused (topic, kafka_partition, kafka_offset, reason, detail)
SELECT topic, kafka_partition, kafka_offset, reason, detail
FROM json_to_recordset($1::json) AS record (
  topic text, kafka_partition integer, kafka_offset bigint, reason text, detail text
)
ON CONFLICT (topic, kafka_partition, kafka_offset) DO NOTHING
