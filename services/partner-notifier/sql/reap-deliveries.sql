-- Takes webhooks out that were delivered long ago, with their attempts, oldest first.
--
-- $1 milliseconds for which they are kept, a day at least; $2 deliveries at most.
-- Always one row: how many left. 0: none is old enough.
SELECT reap_deliveries($1::float8 * interval '1 millisecond', $2::integer) AS reaped
