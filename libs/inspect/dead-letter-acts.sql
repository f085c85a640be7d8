-- What is done about dead letters in the database: given back, or dismissed. Each statement changes
-- one kind of row, or records that a person decided to leave it.

-- name: wakeTransaction
-- Lets a pending transaction be due now, for any worker's resolver.
--
-- $1 id. A row: it is due. No row: it is final, or not there. Its version stays, so a worker that
-- is at it goes on.
UPDATE ledger.transactions SET due_at = now()
WHERE txn_id = $1 AND state = 'pending'
RETURNING txn_id AS event_id

-- name: renewDelivery
-- Makes a webhook that was given up due at once, with all the time for retries again.
--
-- $1 event id, $2 which of its deliveries. A row: it is due. No row: it was not given up. Attempts
-- go on counting, because their number is what keeps an overtaken sender from recording.
UPDATE webhooks.deliveries
SET state = 'pending', finished_at = NULL, first_attempt_at = NULL, next_attempt_at = now()
WHERE event_id = $1 AND ordinal = $2 AND state = 'failed'
RETURNING event_id

-- name: lockDelivery
-- Since when a webhook is given up; whoever else would change that waits until the caller's
-- transaction is over.
--
-- $1 event id, $2 which of its deliveries. A row: it is given up; the time is a text, because a
-- JavaScript date would cut it. No row: it is not.
SELECT finished_at::text AS since FROM webhooks.deliveries
WHERE event_id = $1 AND ordinal = $2 AND state = 'failed'
FOR UPDATE

-- name: clock
-- The database's time, as text, which a JavaScript date would cut.
SELECT now()::text AS now

-- name: lockDeliveries
-- Locks webhooks of a partner that were given up and not dismissed since, oldest first.
--
-- $1 partner id, $2 made from then on or null, $3 made before then or null, $4 given up by then, so
-- that one which is given up once more while this goes on is left; $5 how many at most. A row: one
-- that is locked until the caller's transaction is over. Of two at once the second waits for the
-- first, and finds what that one left. Whoever dismissed one meanwhile is not seen here, because
-- that changes no row that was waited for: renewDeliveries has to look again.
SELECT event_id, ordinal FROM webhooks.deliveries
WHERE state = 'failed' AND partner_id = $1
  AND created_at >= coalesce($2::timestamptz, '-infinity')
  AND created_at < coalesce($3::timestamptz, 'infinity')
  AND finished_at <= $4::timestamptz
  AND NOT EXISTS (
    SELECT FROM auditor.operator_acts
    WHERE act = 'dismiss' AND done_at >= deliveries.finished_at
      AND subject = 'webhook:' || webhooks.delivery_name(event_id, ordinal)
  )
ORDER BY created_at, event_id, ordinal
LIMIT $5
FOR UPDATE

-- name: renewDeliveries
-- Does the same as renewDelivery to webhooks that lockDeliveries has locked, but for those that
-- were dismissed since they were given up, and records each as a redrive of its own, in one
-- statement: one that is redriven and not recorded, or the other way round, there is not.
--
-- $1 event ids, $2 which delivery of each, $3 who, $4 why or null. A row: one that is due. It is a
-- statement after the one that locked, in READ COMMITTED: it sees what was committed until then.
-- Whoever dismisses one from then on waits for the lock, and finds that it is not given up.
WITH renewed AS (
  UPDATE webhooks.deliveries
  SET state = 'pending', finished_at = NULL, first_attempt_at = NULL, next_attempt_at = now()
  FROM unnest($1::uuid[], $2::smallint[]) AS locked (event_id, ordinal)
  WHERE deliveries.event_id = locked.event_id AND deliveries.ordinal = locked.ordinal
    AND state = 'failed'
    AND NOT EXISTS (
      SELECT FROM auditor.operator_acts
      WHERE act = 'dismiss' AND done_at >= deliveries.finished_at
        AND subject = 'webhook:' || webhooks.delivery_name(locked.event_id, locked.ordinal)
    )
  RETURNING deliveries.event_id, deliveries.ordinal
), recorded AS (
  INSERT INTO auditor.operator_acts (act, subject, done_by, why)
  SELECT 'redrive', 'webhook:' || webhooks.delivery_name(event_id, ordinal), $3, $4 FROM renewed
)
SELECT event_id FROM renewed
