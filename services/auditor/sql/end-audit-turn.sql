-- Leaves what a scheduled audit found, for every auditor to show.
--
-- $1 turn, $2 milliseconds it took, $3 rest as when the turn was taken, $4 drift and $5 what is in
-- flight, each as a JSON object of counts by check, $6 since when it is, as times by check.
-- Nothing happens when a later turn was taken meanwhile.
UPDATE scheduled_audit SET
  took_ms = $2::integer,
  due_at = greatest(due_at, now() + $2::integer * $3::integer * interval '1 millisecond'),
  drift = $4::json,
  in_flight = $5::json,
  in_flight_since = $6::json,
  ended_at = now()
WHERE turn = $1
