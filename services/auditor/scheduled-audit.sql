-- The one row that all auditors share: whose run of the scheduled audit it is, and what was found.

-- name: takeRun
-- Takes the next run of the scheduled audit when it is due.
--
-- $1 milliseconds until the next one, $2 how many times as long as an audit takes it rests at
-- least. A row: the run is the caller's, and the next one is due so late that this one is over by
-- then, unless it takes ten times as long as the last. No row: it is not due; of two at once one
-- gets none.
UPDATE scheduled_audit SET
  run = run + 1,
  due_at = now() + greatest($1::float8, took_ms * ($2::integer + 1)) * interval '1 millisecond'
WHERE due_at <= now()
RETURNING run

-- name: endRun
-- Leaves what a scheduled audit found, for every auditor to report.
--
-- $1 run, $2 milliseconds it took, $3 rest as when the run was taken, $4 drift and $5 what is in
-- flight, each as a JSON object of counts by check, $6 since when it is, as times by check, $7 and
-- $8 the same of what waits for others. Of a run that was overtaken only its time is kept: the next
-- run is due later for it, or audits that take ever longer would overtake one another for ever.
UPDATE scheduled_audit SET
  took_ms = CASE WHEN run = $1 THEN $2::integer ELSE greatest(took_ms, $2::integer) END,
  due_at = greatest(due_at, now() + $2::integer * $3::integer * interval '1 millisecond'),
  drift = CASE WHEN run = $1 THEN $4::json ELSE drift END,
  in_flight = CASE WHEN run = $1 THEN $5::json ELSE in_flight END,
  in_flight_since = CASE WHEN run = $1 THEN $6::json ELSE in_flight_since END,
  waiting = CASE WHEN run = $1 THEN $7::json ELSE waiting END,
  waiting_since = CASE WHEN run = $1 THEN $8::json ELSE waiting_since END,
  ended_at = CASE WHEN run = $1 THEN now() ELSE ended_at END

-- name: readLastRun
-- What the last scheduled audit found, of whichever auditor. Always one row; `endedAt` is null
-- before the first.
SELECT
  took_ms AS "tookMs",
  ended_at AS "endedAt",
  drift,
  in_flight AS "inFlight",
  in_flight_since AS "inFlightSince",
  waiting,
  waiting_since AS "waitingSince"
FROM scheduled_audit
