-- Records what one attempt came to, for the sender that still holds the delivery.
--
-- $1 event id, $2 attempt, $3 what it came to (`delivered`, `refused`, `unanswered`, `unsendable`),
-- $4 HTTP status or null, $5 error or null, $6 milliseconds it took, $7 milliseconds until the next
-- attempt, $8 milliseconds after the first attempt when there shall be no further one.
-- A row: recorded, and the delivery's `state` now: `pending` comes again, `failed` was given up.
-- No row: another sender took the delivery over, and nothing was written.
WITH plan AS (
  SELECT now() + $7 * interval '1 millisecond' AS next_at, $8 * interval '1 millisecond' AS patience
), recorded AS (
  UPDATE deliveries SET
    state = CASE
      WHEN $3 = 'delivered' THEN 'delivered'
      WHEN next_at > first_attempt_at + patience THEN 'failed'
      ELSE 'pending'
    END,
    finished_at = CASE WHEN $3 = 'delivered' OR next_at > first_attempt_at + patience THEN now() END,
    next_attempt_at = next_at,
    lease_owner = NULL,
    last_outcome = $3,
    last_status = $4,
    last_error = $5
  FROM plan
  WHERE event_id = $1 AND attempts = $2 AND state = 'pending'
  RETURNING event_id, attempts, state
), logged AS (
  INSERT INTO delivery_attempts (event_id, attempt, status, error, took_ms)
  SELECT event_id, attempts, $4, $5, $6 FROM recorded
)
SELECT state FROM recorded
