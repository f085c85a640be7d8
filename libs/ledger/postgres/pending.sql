-- How much waits to be published, and for how long the oldest of it.
--
-- $1 how far rows are counted. Always one row.
--
-- A backlog makes this no slower: the count ends at $1, and the oldest is looked up per bucket, at
-- the head of an index. The caller turns off plans that read a whole index or table first, which
-- PostgreSQL prefers while its statistics do not know of the backlog yet.
SELECT
  (
    SELECT count(*) FROM (
      SELECT FROM ledger.outbox WHERE state = 'pending' ORDER BY bucket, order_id LIMIT $1
    ) AS counted
  )::integer AS rows,
  coalesce(extract(epoch FROM now() - min(head.created_at)), 0)::float8 AS oldest_seconds
FROM ledger.outbox_leases AS lease
LEFT JOIN LATERAL (
  SELECT created_at FROM ledger.outbox
  WHERE bucket = lease.bucket AND state = 'pending'
  ORDER BY order_id
  LIMIT 1
) AS head ON true
