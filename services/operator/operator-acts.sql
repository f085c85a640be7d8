-- What operators did: who, when and why. The history is only added to.

-- name: lastRedrives
-- The newest redrive of each subject.
--
-- $1 ids of dead letters. A row: one that was redriven. No row: it never was.
SELECT DISTINCT ON (subject) subject AS id, done_by AS by, done_at AS at, why
FROM auditor.operator_acts
WHERE act = 'redrive' AND subject = ANY ($1::text[])
ORDER BY subject, act_id DESC

-- name: recordRedrive
-- Records who redrives a dead letter and why, unless that is recorded already.
--
-- $1 id, $2 who, $3 why or null, $4 whether it may be redriven once more.
-- A row: it is recorded, and the redrive must follow in this transaction. No row: it was redriven
-- before, and nothing was written. Of two at once on one id the second waits for the first, by a
-- lock that is taken before.
INSERT INTO auditor.operator_acts (act, subject, done_by, why)
SELECT 'redrive', $1, $2, $3
WHERE $4 OR NOT EXISTS (
  SELECT FROM auditor.operator_acts WHERE act = 'redrive' AND subject = $1
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

-- name: recordAcknowledgement
-- Records who knows of a loss and what they did about it; from then on it is no drift.
--
-- $1 what it is, `lost:<id>` or `claim:<txn_id>`, $2 who, $3 the reason. One row where the audit
-- found that: whether it is recorded now, or was acknowledged before and nothing was written. A
-- loss to which claims were laid since is acknowledged once more, for them. No row: nothing of that
-- id was lost. Of two at once on one id the second waits for the first, by a lock that is taken
-- before.
WITH lost AS (
  SELECT 'lost:' || lost_id AS subject, (
    SELECT max(confirmed_at) FROM auditor.claims_unaccounted
    WHERE claims_unaccounted.lost_id = accepted_lost.lost_id
  ) AS named_at
  FROM auditor.accepted_lost
  UNION ALL
  SELECT 'claim:' || txn_id, NULL FROM auditor.claims_unaccounted WHERE confirmed_at IS NOT NULL
),
recorded AS (
  INSERT INTO auditor.operator_acts (act, subject, done_by, why)
  SELECT 'acknowledge', subject, $2, $3
  FROM lost
  WHERE subject = $1 AND NOT EXISTS (
    SELECT FROM auditor.operator_acts AS before
    WHERE before.act = 'acknowledge' AND before.subject = lost.subject
      AND before.done_at >= coalesce(named_at, before.done_at)
  )
  LIMIT 1
  RETURNING subject
)
SELECT CASE WHEN recorded.subject IS NULL THEN 'acknowledged-before' ELSE 'acknowledged' END
  AS outcome
FROM lost LEFT JOIN recorded USING (subject)
WHERE lost.subject = $1
LIMIT 1
