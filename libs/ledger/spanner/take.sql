-- Reads events to publish, in order within their bucket.
--
-- @buckets and @epochs, one of each per lease; @perBucket and @limit rows at most.
-- A row: a pending event of a bucket whose lease holds. No row: nothing waits, or the leases are
-- lost.
--
-- Events behind a parked one of their payment wait with it. Buckets take turns row by row, so that
-- those whose events cannot be published now do not fill every answer.
SELECT
  UNIX_MICROS(event.created_at) AS order_id, event.event_id, event.event_type, event.txn_id,
  event.payment_id, event.bucket, event.sequence, event.payload, event.traceparent
FROM UNNEST(@buckets) AS wanted_bucket WITH OFFSET AS nth
JOIN outbox_leases AS lease
  ON lease.bucket = wanted_bucket AND lease.epoch = @epochs[OFFSET(nth)]
  AND lease.expires_at > CURRENT_TIMESTAMP(),
UNNEST(ARRAY(
  SELECT AS STRUCT pending.event_id
  FROM outbox@{FORCE_INDEX=outbox_pending, spanner_emulator.disable_query_null_filtered_index_check=true} AS pending
  WHERE pending.pending_bucket = wanted_bucket AND NOT EXISTS (
    SELECT 1
    FROM outbox@{FORCE_INDEX=outbox_parked, spanner_emulator.disable_query_null_filtered_index_check=true} AS parked
    WHERE parked.parked_payment = pending.payment_id AND parked.created_at < pending.created_at
  )
  ORDER BY pending.created_at, pending.event_id
  LIMIT @perBucket
)) AS head WITH OFFSET AS turn
JOIN outbox AS event ON event.event_id = head.event_id
ORDER BY turn, event.created_at, event.event_id
LIMIT @limit
