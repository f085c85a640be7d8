-- How much waits to be published, and for how long the oldest of it.
--
-- No parameters; always one row. The oldest is looked up per bucket, at the head of an index, so
-- that a backlog makes this no slower.
SELECT
  (SELECT count(*) FROM ledger.outbox WHERE state = 'pending')::integer AS rows,
  coalesce(extract(epoch FROM now() - min(head.created_at)), 0)::float8 AS oldest_seconds
FROM ledger.outbox_leases AS lease
LEFT JOIN LATERAL (
  SELECT created_at FROM ledger.outbox
  WHERE bucket = lease.bucket AND state = 'pending'
  ORDER BY order_id
  LIMIT 1
) AS head ON true
