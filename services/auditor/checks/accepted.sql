-- The topic of accepted payments against ledger and dead letters.
--
-- A row: an offending `id`, and `since` when it has been one. No row: the check holds. checks.ts
-- says when it must, and what the window from $1 until $2 is.

-- name: accepted_lost
-- Records that Kafka lost before they were read and that no person has acknowledged, as
-- <id>/<topic>/<partition>/<first offset>-<last offset>/<why>/<lost after>/<found>: only the
-- partners and the claims know what they were.
SELECT
  concat_ws(
    '/', lost_id, topic, kafka_partition, from_offset || '-' || (to_offset - 1), why,
    to_char(whole_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    to_char(found_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  ) AS id,
  found_at AS since
FROM auditor.accepted_lost
WHERE NOT EXISTS (
  SELECT FROM auditor.operator_acts
  WHERE act = 'acknowledge' AND subject = 'lost:' || lost_id
)

-- name: claim_unaccounted
-- Claims that were answered and that neither the topic, as it was read, nor ledger, dead letter or
-- key conflict accounts for: what Kafka lost, by its ids. Whoever acknowledges a loss acknowledges
-- those that were laid to it by then.
SELECT txn_id::text AS id, confirmed_at AS since
FROM auditor.claims_unaccounted AS claim
WHERE confirmed_at IS NOT NULL
  AND NOT auditor.is_accounted(txn_id, fingerprint)
  AND NOT EXISTS (
    SELECT FROM auditor.operator_acts
    WHERE act = 'acknowledge' AND done_at >= claim.confirmed_at
      AND (subject = 'claim:' || claim.txn_id OR subject = 'lost:' || claim.lost_id)
  )

-- name: accepted_unaccounted
-- Requests in the topic that neither the ledger nor a dead letter accounts for, and that no person
-- acknowledged since: what Kafka lost after the auditor read it and before a worker did.
WITH unaccounted AS MATERIALIZED (
  SELECT txn_id, first_seen
  FROM auditor.accepted
  WHERE first_seen >= $1 AND first_seen < $2
    AND NOT EXISTS (
      SELECT FROM auditor.transactions_of($1, $2) AS transactions
      WHERE transactions.txn_id = accepted.txn_id
        AND transactions.fingerprint = accepted.fingerprint
    )
    AND NOT EXISTS (
      SELECT FROM auditor.dead_letters
      WHERE dead_letters.txn_id = accepted.txn_id
        AND dead_letters.fingerprint = accepted.fingerprint
    )
)
SELECT txn_id::text AS id, first_seen AS since
FROM unaccounted
WHERE NOT EXISTS (
  SELECT FROM auditor.acknowledged
  WHERE had_by = 'accepted' AND acknowledged.txn_id = unaccounted.txn_id AND done_at >= first_seen
)

-- name: key_conflict_untold
-- Requests that lost their key to another one without an event for the partner. One that a person
-- acknowledged as lost was in no worker's hands.
WITH losers AS MATERIALIZED (
  SELECT accepted.txn_id, accepted.fingerprint, accepted.first_seen
  FROM auditor.accepted
  JOIN auditor.transactions_of($1, $2) AS winner USING (txn_id)
  WHERE first_seen >= $1 AND first_seen < $2 AND winner.fingerprint <> accepted.fingerprint
)
SELECT txn_id::text AS id, first_seen AS since
FROM losers
WHERE NOT EXISTS (
  SELECT FROM ledger.outbox
  WHERE outbox.event_id = auditor.derive_id(
    'event', losers.txn_id::text, 'payment.key_conflict', encode(losers.fingerprint, 'hex')
  )
  OFFSET 0
)
  AND NOT EXISTS (
    SELECT FROM auditor.acknowledged
    WHERE had_by = 'accepted' AND acknowledged.txn_id = losers.txn_id AND done_at >= first_seen
  )

-- name: key_conflict_unfounded
-- Key conflict events without a request that lost, or of another partner or payment than its.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
WHERE outbox.event_type = 'payment.key_conflict'
  AND outbox.created_at >= $1 AND outbox.created_at < $2
  AND NOT EXISTS (
    SELECT FROM auditor.accepted
    JOIN ledger.transactions USING (txn_id)
    WHERE accepted.txn_id = outbox.txn_id
      AND accepted.fingerprint <> transactions.fingerprint
      AND outbox.event_id = auditor.derive_id(
        'event', accepted.txn_id::text, 'payment.key_conflict', encode(accepted.fingerprint, 'hex')
      )
      AND (outbox.partner_id, outbox.payment_id)
        = (accepted.partner_id, coalesce(accepted.payment_id, accepted.txn_id))
    OFFSET 0
  )

-- name: refused_record_not_dead_lettered
-- Records that are no payment and were not set aside as dead letters, and that no person
-- acknowledged since.
SELECT concat_ws('/', topic, kafka_partition, kafka_offset) AS id, first_seen AS since
FROM auditor.accepted_refused AS refused
WHERE first_seen >= $1 AND first_seen < $2
  AND NOT EXISTS (
    SELECT FROM auditor.dead_letters AS dead
    WHERE dead.topic = refused.topic
      AND dead.kafka_partition = refused.kafka_partition
      AND dead.kafka_offset = refused.kafka_offset
    OFFSET 0
  )
  AND NOT EXISTS (
    SELECT FROM auditor.operator_acts
    WHERE act = 'acknowledge' AND done_at >= first_seen
      AND subject = concat('record:', topic, '/', kafka_partition, '/', kafka_offset)
    OFFSET 0
  )

-- name: dead_letter_unfounded
-- Dead letters of records that the topic does not hold.
SELECT concat_ws('/', topic, kafka_partition, kafka_offset) AS id, first_seen AS since
FROM auditor.dead_letters AS dead
WHERE first_seen >= $1 AND first_seen < $2
  AND NOT EXISTS (
    SELECT FROM auditor.accepted
    WHERE accepted.txn_id = dead.txn_id AND accepted.fingerprint = dead.fingerprint
    OFFSET 0
  )
  AND NOT EXISTS (
    SELECT FROM auditor.accepted_refused AS refused
    WHERE refused.topic = dead.topic
      AND refused.kafka_partition = dead.kafka_partition
      AND refused.kafka_offset = dead.kafka_offset
    OFFSET 0
  )
