-- Marks events that the broker has acknowledged.
--
-- $1 bucket, $2 epoch, $3 event ids.
-- A row: the event is marked now. No row: it was marked before, or the lease no longer holds.
--
-- The share lock keeps the lease from passing on between the comparison and the commit.
WITH lease AS MATERIALIZED (
  SELECT bucket, epoch FROM ledger.outbox_leases
  WHERE bucket = $1::smallint AND epoch = $2::bigint AND expires_at > now()
  FOR SHARE
)
UPDATE ledger.outbox AS event
SET state = 'published', published_at = now(), published_epoch = lease.epoch
FROM lease
WHERE event.event_id = ANY ($3::uuid[]) AND event.bucket = lease.bucket AND event.state = 'pending'
RETURNING event.event_id
