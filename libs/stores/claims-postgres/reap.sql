-- Takes claims out that expired more than an hour ago, oldest first.
--
-- $1 rows at most.
-- Always one row: how many left. 0: none is old enough.
SELECT reap_claims($1) AS reaped
