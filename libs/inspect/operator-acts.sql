-- What operators did: who, when and why. The history is only added to.

-- name: lastLetterActs
-- The newest redrive or dismissal of each subject.
--
-- $1 ids of dead letters. A row: one that was redriven or dismissed. No row: it never was.
SELECT DISTINCT ON (subject) subject AS id, act, done_by AS by, done_at AS at, why
FROM auditor.operator_acts
WHERE act IN ('redrive', 'dismiss') AND subject = ANY ($1::text[])
ORDER BY subject, act_id DESC

-- name: recordRedrive
-- Records who redrives a dead letter and why, unless somebody redrove or dismissed it since it was
-- set aside.
--
-- $1 id, $2 who, $3 why or null, $4 whether it may be redriven once more, $5 when it was set aside
-- last or null for what is set aside once.
-- A row: it is recorded, and the redrive must follow in this transaction. No row: something was
-- done about it before, and nothing was written. Of two at once on one id the second waits for the
-- first, by a lock that is taken before.
INSERT INTO auditor.operator_acts (act, subject, done_by, why)
SELECT 'redrive', $1, $2, $3
WHERE $4 OR NOT EXISTS (
  SELECT FROM auditor.operator_acts
  WHERE act IN ('redrive', 'dismiss') AND subject = $1
    AND done_at >= coalesce($5::timestamptz, '-infinity')
)
RETURNING act_id

-- name: recordDismissal
-- Records who dismisses a dead letter and why, unless that was the last thing done about it since
-- it was set aside. One that was redriven may be dismissed, and the other way round.
--
-- $1 id, $2 who, $3 why, $4 when it was set aside last or null for what is set aside once.
-- A row: it is recorded. No row: it is dismissed already, and nothing was written. Of two at once
-- on one id the second waits for the first, by a lock that is taken before.
INSERT INTO auditor.operator_acts (act, subject, done_by, why)
SELECT 'dismiss', $1, $2, $3
WHERE 'dismiss' IS DISTINCT FROM (
  SELECT act FROM auditor.operator_acts
  WHERE act IN ('redrive', 'dismiss') AND subject = $1
    AND done_at >= coalesce($4::timestamptz, '-infinity')
  ORDER BY act_id DESC LIMIT 1
)
RETURNING act_id

-- name: recordRepublish
-- Says who republishes since when, and why.
--
-- $1 since when, $2 who, $3 why or null. Always one row: before which time of publishing events
-- have left the outbox, or null when none has.
WITH act AS (
  INSERT INTO auditor.operator_acts (act, subject, done_by, why)
  VALUES ('republish', 'since ' || $1::text, $2, $3)
)
SELECT nullif(reaped_before, '-infinity') AS "leftBefore" FROM ledger.outbox_horizon

-- name: recordRewind
-- Says who has the groups read again since when, and why.
--
-- $1 since when, $2 who, $3 why or null. No row, ever.
INSERT INTO auditor.operator_acts (act, subject, done_by, why)
VALUES ('rewind', 'since ' || $1::text, $2, $3)

-- name: recordGiveBack
-- Says who gives back what the provider has of a payment, and why. The audit looks for it beside
-- the refund (auditor.returned).
--
-- $1 `intent:<txn_id>/<intent id>`, $2 who, $3 why. No row, ever.
INSERT INTO auditor.operator_acts (act, subject, done_by, why) VALUES ('give-back', $1, $2, $3)

-- name: recordAcknowledgement
-- Records who knows of a loss and what they did about it; from then on it is no drift.
--
-- $1 what it may be, `lost:<id>`, `claim:`, `accepted:` and `ledger:` with the txn_id $4, or
-- `record:` with topic $5, partition $6 and offset $7; $2 who, $3 the reason. One row where the
-- audit found any of that: whether it is recorded now, or was acknowledged before and nothing was
-- written. What was found since is acknowledged once more. No row: nothing of that id was lost. Of
-- two at once on one id the second waits for the first, by a lock that is taken before.
--
-- A request that a worker may still come to is none: a later one of its partition has been posted.
-- So it is of a record that is no request, and whose dead letter was lost. Nor is a ledger row
-- without one, unless Kafka lost something since; the clocks of gateways may be off by a minute.
WITH lost AS (
  SELECT 'lost:' || lost_id AS subject, (
    SELECT max(confirmed_at) FROM auditor.claims_unaccounted
    WHERE claims_unaccounted.lost_id = accepted_lost.lost_id
  ) AS named_at
  FROM auditor.accepted_lost
  UNION ALL
  SELECT 'claim:' || txn_id, max(confirmed_at)
  FROM auditor.claims_unaccounted
  WHERE txn_id = $4 AND confirmed_at IS NOT NULL
  GROUP BY txn_id
  UNION ALL
  SELECT 'accepted:' || txn_id, max(first_seen)
  FROM auditor.accepted
  WHERE txn_id = $4
    AND NOT EXISTS (
      SELECT FROM ledger.transactions
      WHERE transactions.txn_id = accepted.txn_id AND transactions.fingerprint = accepted.fingerprint
    )
    AND EXISTS (
      SELECT FROM auditor.accepted AS later
      JOIN ledger.transactions USING (txn_id, fingerprint)
      WHERE later.kafka_partition = accepted.kafka_partition AND later.first_seen > accepted.first_seen
    )
  GROUP BY txn_id
  UNION ALL
  SELECT 'ledger:' || txn_id, NULL
  FROM ledger.transactions
  WHERE txn_id = $4
    AND NOT EXISTS (
      SELECT FROM auditor.accepted
      WHERE accepted.txn_id = transactions.txn_id AND accepted.fingerprint = transactions.fingerprint
    )
    AND EXISTS (
      SELECT FROM auditor.accepted_lost WHERE found_at > transactions.created_at - interval '1 minute'
    )
  UNION ALL
  SELECT concat('record:', topic, '/', kafka_partition, '/', kafka_offset), first_seen
  FROM auditor.accepted_refused AS refused
  WHERE topic = $5 AND kafka_partition = $6 AND kafka_offset = $7
    AND NOT EXISTS (
      SELECT FROM auditor.dead_letters AS dead
      WHERE dead.topic = refused.topic
        AND dead.kafka_partition = refused.kafka_partition
        AND dead.kafka_offset = refused.kafka_offset
    )
    AND EXISTS (
      SELECT FROM auditor.accepted AS later
      JOIN ledger.transactions USING (txn_id, fingerprint)
      WHERE later.kafka_partition = refused.kafka_partition AND later.first_seen > refused.first_seen
    )
),
recorded AS (
  INSERT INTO auditor.operator_acts (act, subject, done_by, why)
  SELECT 'acknowledge', subject, $2, $3
  FROM lost
  WHERE subject = ANY ($1::text[]) AND NOT EXISTS (
    SELECT FROM auditor.operator_acts AS before
    WHERE before.act = 'acknowledge' AND before.subject = lost.subject
      AND before.done_at >= coalesce(named_at, before.done_at)
  )
  RETURNING subject
)
SELECT CASE WHEN bool_and(recorded.subject IS NULL) THEN 'acknowledged-before' ELSE 'acknowledged' END
  AS outcome
FROM lost LEFT JOIN recorded USING (subject)
WHERE lost.subject = ANY ($1)
HAVING count(*) > 0
