-- Takes the turn of the scheduled audit when it is due.
--
-- $1 milliseconds until the next one, $2 how many times as long as an audit takes it rests at
-- least. A row: the turn is the caller's, and the next one is due so late that this one is over by
-- then, unless it takes ten times as long as the last. No row: it is not due; of two at once one
-- gets none.
UPDATE scheduled_audit SET
  turn = turn + 1,
  due_at = now() + greatest($1::float8, took_ms * ($2::integer + 1)) * interval '1 millisecond'
WHERE due_at <= now()
RETURNING turn
