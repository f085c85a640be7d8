-- Dead letters of records that the topic does not hold.
SELECT concat_ws('/', topic, kafka_partition, kafka_offset) AS id, first_seen AS since
FROM auditor.dead_letters AS dead
WHERE NOT EXISTS (
    SELECT FROM auditor.accepted
    WHERE accepted.txn_id = dead.txn_id AND accepted.fingerprint = dead.fingerprint
  )
  AND NOT EXISTS (
    SELECT FROM auditor.accepted_refused AS refused
    WHERE refused.topic = dead.topic
      AND refused.kafka_partition = dead.kafka_partition
      AND refused.kafka_offset = dead.kafka_offset
  )
