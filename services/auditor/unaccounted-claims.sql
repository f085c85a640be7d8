-- The walk over the claims, and those of them that nothing else accounts for.

-- name: takeStep
-- Takes the next step of the walk when it is due.
--
-- $1 milliseconds until the next one. A row: the step is the caller's, from behind `cursor`, null =
-- from the beginning. No row: it is not due, or another auditor has it.
UPDATE claim_walk SET step = step + 1, due_at = now() + $1 * interval '1 millisecond'
WHERE due_at <= now()
RETURNING step, cursor

-- name: endStep
-- Says where the next step begins.
--
-- $1 step, $2 cursor, null = the walk is over, $3 milliseconds from then until another begins.
-- Nothing happens for a step that was overtaken: it is made again from where it began.
UPDATE claim_walk SET
  cursor = $2, trouble = NULL, answered_at = now(),
  walked_at = CASE WHEN $2::text IS NULL THEN now() ELSE walked_at END,
  due_at = CASE WHEN $2::text IS NULL THEN now() + $3 * interval '1 millisecond' ELSE due_at END
WHERE step = $1

-- name: failStep
-- Says why the claims could not be read: $1 step, $2 the reason.
UPDATE claim_walk SET trouble = $2 WHERE step = $1

-- name: readTrouble
-- Why the claims cannot be compared. No row: they are.
SELECT trouble AS why, answered_at AS since FROM claim_walk WHERE trouble IS NOT NULL

-- name: findUnaccounted
-- Which of some claims nothing accounts for yet.
--
-- $1 a JSON array of ids with fingerprints. A row: one of them.
SELECT txn_id
FROM json_to_recordset($1::json) AS claim (txn_id uuid, fingerprint text)
WHERE NOT is_accounted(txn_id, decode(fingerprint, 'hex'))

-- name: doubt
-- Remembers claims that nothing accounts for yet, and where their records are, if there are any.
--
-- $1 topic, $2 a JSON array of the fields below. One that is known stays as it is, unless its
-- partition ends earlier by now than it did: then it is another topic's, and is looked for there.
INSERT INTO claims_unaccounted AS known (
  txn_id, fingerprint, partner_id, accepted_at, topic, kafka_partition, before_offset
)
SELECT txn_id, decode(fingerprint, 'hex'), partner_id, accepted_at, $1, kafka_partition,
       before_offset
FROM json_to_recordset($2::json) AS claim (
  txn_id uuid, fingerprint text, partner_id text, accepted_at timestamptz,
  kafka_partition integer, before_offset bigint
)
ORDER BY txn_id
ON CONFLICT (txn_id, fingerprint) DO UPDATE
SET before_offset = excluded.before_offset
WHERE known.confirmed_at IS NULL AND excluded.before_offset < known.before_offset

-- name: readDoubts
-- Whether there are claims to confirm: a row where there are any.
SELECT FROM claims_unaccounted WHERE confirmed_at IS NULL LIMIT 1

-- name: forgetAccounted
-- Forgets the claims whose records were only late.
DELETE FROM claims_unaccounted
WHERE confirmed_at IS NULL AND is_accounted(txn_id, fingerprint)

-- name: confirmDoubts
-- Confirms the claims whose records worker and auditor must have met by now, and have not.
--
-- $1 topic, $2 a JSON array of the worker's offsets, read before the ledger's copy was brought up
-- to now. A claim is laid to the last loss of its partition that was found since it was accepted;
-- gateways' clocks may be off by a minute. A row: one that is confirmed now.
UPDATE claims_unaccounted AS claim
SET confirmed_at = now(), lost_id = (
  SELECT max(lost_id) FROM accepted_lost
  WHERE accepted_lost.topic = claim.topic
    AND accepted_lost.kafka_partition = claim.kafka_partition
    AND from_offset < before_offset
    AND found_at > accepted_at - interval '1 minute'
)
FROM accepted_positions AS read,
  json_to_recordset($2::json) AS worker (partition integer, next bigint)
WHERE claim.confirmed_at IS NULL AND claim.topic = $1
  AND read.topic = claim.topic AND read.kafka_partition = claim.kafka_partition
  AND worker.partition = claim.kafka_partition
  AND read.next_offset >= before_offset AND worker.next >= before_offset
  AND NOT is_accounted(txn_id, fingerprint)
RETURNING claim.txn_id AS "txnId", partner_id AS "partnerId", accepted_at AS "acceptedAt",
  claim.kafka_partition AS partition, lost_id AS "lostId"
