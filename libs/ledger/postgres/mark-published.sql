-- Marks events that the broker has acknowledged, of several buckets at once.
--
-- $1 event ids, $2 the bucket and $3 the epoch under which each was published.
-- A row: the event is marked now. No row: it was marked before, or the lease no longer holds.
--
-- The share locks keep the leases from passing on between the comparison and the commit.
WITH published AS (
  SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bigint[]) AS mark (event_id, bucket, epoch)
), lease AS MATERIALIZED (
  SELECT bucket, epoch FROM ledger.outbox_leases
  WHERE (bucket, epoch) IN (SELECT bucket, epoch FROM published) AND expires_at > now()
  ORDER BY bucket
  FOR SHARE
)
UPDATE ledger.outbox AS event
SET state = 'published', published_at = now(), published_epoch = lease.epoch
FROM published JOIN lease USING (bucket, epoch)
WHERE event.event_id = published.event_id
  AND event.bucket = published.bucket
  AND event.state = 'pending'
RETURNING event.event_id
