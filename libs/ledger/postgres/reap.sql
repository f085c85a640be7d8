-- Takes events out of the outbox that were published long ago, oldest first.
--
-- $1 milliseconds for which they are kept, a day at least; $2 events at most.
-- Always one row: how many left. 0: none is old enough.
SELECT ledger.reap_outbox($1::float8 * interval '1 millisecond', $2::integer) AS reaped
