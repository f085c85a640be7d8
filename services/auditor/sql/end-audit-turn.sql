-- Leaves what a scheduled audit found, for every auditor to tell.
--
-- $1 turn, $2 milliseconds it took, $3 rest as when the turn was taken, $4 drift and $5 what is in
-- flight, each as a JSON object of counts by check, $6 since when it is, as times by check.
-- Of a turn that was overtaken only its time is kept: the next turn is due later for it, or audits
-- that take ever longer than their turns would overtake one another for ever.
UPDATE scheduled_audit SET
  took_ms = CASE WHEN turn = $1 THEN $2::integer ELSE greatest(took_ms, $2::integer) END,
  due_at = greatest(due_at, now() + $2::integer * $3::integer * interval '1 millisecond'),
  drift = CASE WHEN turn = $1 THEN $4::json ELSE drift END,
  in_flight = CASE WHEN turn = $1 THEN $5::json ELSE in_flight END,
  in_flight_since = CASE WHEN turn = $1 THEN $6::json ELSE in_flight_since END,
  ended_at = CASE WHEN turn = $1 THEN now() ELSE ended_at END
