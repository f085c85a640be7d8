-- Takes keys out that expired more than an hour ago, oldest first.
--
-- $1 rows at most.
-- A row for each that left. No row: none is old enough.
DELETE FROM once WHERE (scope, key) IN (
  SELECT scope, key FROM once
  WHERE expires_at < clock_timestamp() - interval '1 hour'
  ORDER BY expires_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)
RETURNING key
