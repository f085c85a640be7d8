-- Records that are no payment and were not set aside as dead letters.
SELECT concat_ws('/', topic, kafka_partition, kafka_offset) AS id, first_seen AS since
FROM auditor.accepted_refused AS refused
WHERE NOT EXISTS (
  SELECT FROM auditor.dead_letters AS dead
  WHERE dead.topic = refused.topic
    AND dead.kafka_partition = refused.kafka_partition
    AND dead.kafka_offset = refused.kafka_offset
)
