-- Reads events to publish, in order within their bucket.
--
-- $1 buckets, $2 their epochs, $3 rows at most per bucket, $4 rows at most.
-- A row: a pending event of a bucket whose lease holds. No row: nothing waits, or the leases are
-- lost.
--
-- Taken by state, so a row that committed late under a lower order id is not passed over. Events
-- behind a parked one of their payment wait with it. One row of each bucket after the other, so
-- that those whose events cannot be published now do not fill every answer.
SELECT event.*
FROM unnest($1::smallint[], $2::bigint[]) AS wanted (bucket, epoch)
JOIN ledger.outbox_leases AS lease
  ON lease.bucket = wanted.bucket AND lease.epoch = wanted.epoch AND lease.expires_at > now()
CROSS JOIN LATERAL (
  SELECT
    order_id, event_id, event_type, txn_id, payment_id, bucket, sequence, payload, traceparent,
    row_number() OVER (ORDER BY order_id) AS round
  FROM ledger.outbox AS pending
  WHERE pending.bucket = lease.bucket AND pending.state = 'pending' AND NOT EXISTS (
    SELECT FROM ledger.outbox AS parked
    WHERE parked.payment_id = pending.payment_id AND parked.state = 'parked'
      AND parked.order_id < pending.order_id
  )
  ORDER BY order_id
  LIMIT $3
) AS event
ORDER BY event.round, event.order_id
LIMIT $4
