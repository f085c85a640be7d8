-- Takes a consumer's inbox rows out that were received long ago, oldest first; cursors stay.
--
-- $1 consumer, $2 milliseconds for which rows are kept, a day at least; $3 rows at most.
-- Always one row: how many left. 0: none is old enough.
SELECT reap_inbox($1, $2::float8 * interval '1 millisecond', $3::integer) AS reaped
