-- Records what attempts came to, each for the sender that still holds the delivery.
--
-- $1 event ids, $2 attempts, $3 what each came to (`delivered`, `refused`, `unanswered`,
-- `unsendable`), $4 HTTP statuses or nulls, $5 errors or nulls, $6 milliseconds each took,
-- $7 milliseconds until its next attempt, $8 milliseconds after the first attempt when there shall
-- be no further one. All of one length.
-- A row for each attempt that was recorded, with the delivery's `state` now: `pending` comes again,
-- `failed` was given up. No row: another sender took the delivery over, and nothing was written.
WITH made AS (
  SELECT event_id, attempt, outcome, status, error, took_ms,
         now() + next_in_ms * interval '1 millisecond' AS next_at,
         patience_ms * interval '1 millisecond' AS patience
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::integer[], $5::text[], $6::integer[],
              $7::bigint[], $8::bigint[])
       AS t (event_id, attempt, outcome, status, error, took_ms, next_in_ms, patience_ms)
), recorded AS (
  UPDATE deliveries SET
    state = CASE
      WHEN outcome = 'delivered' THEN 'delivered'
      WHEN next_at > first_attempt_at + patience THEN 'failed'
      ELSE 'pending'
    END,
    finished_at = CASE
      WHEN outcome = 'delivered' OR next_at > first_attempt_at + patience THEN now()
    END,
    next_attempt_at = next_at,
    lease_owner = NULL,
    last_outcome = outcome,
    last_status = status,
    last_error = error
  FROM made
  WHERE deliveries.event_id = made.event_id AND attempts = attempt AND state = 'pending'
  RETURNING deliveries.event_id, attempt, state, status, error, took_ms
), logged AS (
  INSERT INTO delivery_attempts (event_id, attempt, status, error, took_ms)
  SELECT event_id, attempt, status, error, took_ms FROM recorded
)
SELECT event_id, attempt, state FROM recorded
