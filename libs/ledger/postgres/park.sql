-- Sets aside an event that can never be published, and its payment's later ones behind it.
--
-- $1 bucket, $2 epoch, $3 event id, $4 why.
-- A row: an event that is parked now. No row: it no longer waits, or the lease no longer holds.
WITH lease AS MATERIALIZED (
  SELECT bucket FROM ledger.outbox_leases
  WHERE bucket = $1::smallint AND epoch = $2::bigint AND expires_at > now()
  FOR SHARE
), poison AS (
  SELECT event_id, payment_id, order_id FROM ledger.outbox, lease
  WHERE event_id = $3::uuid AND outbox.bucket = lease.bucket AND state = 'pending'
)
UPDATE ledger.outbox AS event
SET state = 'parked',
    parked_reason = CASE
      WHEN event.event_id = poison.event_id THEN $4::text
      ELSE 'behind ' || poison.event_id
    END
FROM poison
WHERE event.payment_id = poison.payment_id
  AND event.order_id >= poison.order_id
  AND event.state = 'pending'
RETURNING event.event_id
