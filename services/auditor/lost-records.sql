-- How far the accepted topic was read, and what of it was lost before it was.

-- name: lockPositions
-- The next offset that is expected of each partition, held until this transaction ends.
--
-- $1 topic. In the order of partitions, so that two auditors do not deadlock. No row: this topic
-- was never read.
SELECT kafka_partition AS partition, next_offset AS next
FROM accepted_positions
WHERE topic = $1
ORDER BY kafka_partition
FOR UPDATE

-- name: readPositions
-- The next offset that is expected of each partition, as of now.
--
-- $1 topic. No row: this topic was never read.
SELECT kafka_partition AS partition, next_offset AS next FROM accepted_positions WHERE topic = $1

-- name: beginPositions
-- Begins partitions that were never read.
--
-- $1 topic, $2 a JSON array of partitions and offsets. Nothing happens for one that another auditor
-- began. Nothing was missing of one that was added when the topic was last looked at.
INSERT INTO accepted_positions (topic, kafka_partition, next_offset, whole_at)
SELECT
  $1, partition, next,
  coalesce((SELECT max(whole_at) FROM accepted_positions WHERE topic = $1), now())
FROM json_to_recordset($2::json) AS position (partition integer, next bigint)
ORDER BY partition
ON CONFLICT (topic, kafka_partition) DO NOTHING

-- name: movePositions
-- Says what is expected next, also where that is less than before. In the transaction of the
-- records that were read, so that no offset is passed whose record was not kept.
--
-- $1 topic, $2 a JSON array of partitions and offsets; they are locked.
UPDATE accepted_positions
SET next_offset = position.next, whole_at = now()
FROM json_to_recordset($2::json) AS position (partition integer, next bigint)
WHERE accepted_positions.topic = $1 AND kafka_partition = position.partition

-- name: confirmPositions
-- Says that nothing was missing just now; every 10 s at most, because audits may come often.
--
-- $1 topic, $2 partitions; they are locked.
UPDATE accepted_positions
SET whole_at = now()
WHERE topic = $1 AND kafka_partition = ANY ($2::integer[]) AND whole_at < now() - interval '10 s'

-- name: recordLost
-- Records what was lost, for good.
--
-- $1 topic, $2 a JSON array of gaps, whose partitions are locked. A row for each: its id.
INSERT INTO accepted_lost (topic, kafka_partition, from_offset, to_offset, why, whole_at)
SELECT $1, gap.partition, gap."from", gap."to", gap.why, accepted_positions.whole_at
FROM json_to_recordset($2::json) AS gap (partition integer, "from" bigint, "to" bigint, why text)
JOIN accepted_positions
  ON accepted_positions.topic = $1 AND accepted_positions.kafka_partition = gap.partition
RETURNING lost_id AS id, kafka_partition AS partition, from_offset AS "from", to_offset AS "to", why

-- name: listLost
-- What Kafka lost before it was read and no person has acknowledged, the first offset and the last.
-- No row: nothing. At most 100, the oldest.
SELECT kafka_partition AS partition, from_offset::float8 AS "from", (to_offset - 1)::float8 AS "to",
       found_at AS seen_at
FROM auditor.accepted_lost
WHERE NOT EXISTS (
  SELECT FROM auditor.operator_acts
  WHERE act = 'acknowledge' AND subject = 'lost:' || lost_id
)
ORDER BY found_at, lost_id
LIMIT 100
