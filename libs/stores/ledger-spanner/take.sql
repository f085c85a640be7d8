-- Reads events to publish, in order within their bucket.
--
-- @buckets and @epochs, one of each per lease; @perBucket and @limit rows at most.
-- A row: a pending event of a bucket whose lease holds. No row: nothing waits, or the leases are
-- lost.
--
-- One row of each bucket after the other, so that those whose events cannot be published now do
-- not fill every answer. The caller puts in which events are held: they stand behind a parked
-- one of their payment, and wait with it.
SELECT event.* REPLACE (UNIX_MICROS(event.created_at) AS created_at)
FROM UNNEST(@buckets) AS wanted_bucket WITH OFFSET AS nth
JOIN outbox_leases AS lease
  ON lease.bucket = wanted_bucket AND lease.epoch = @epochs[OFFSET(nth)]
  AND lease.expires_at > CURRENT_TIMESTAMP(),
UNNEST(ARRAY(
  SELECT AS STRUCT
    event_id, event_type, txn_id, payment_id, bucket, sequence, payload, traceparent, created_at
  FROM outbox@{FORCE_INDEX=outbox_pending, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE pending_bucket = wanted_bucket AND $NOT_HELD
  ORDER BY created_at, place, event_id
  LIMIT @perBucket
)) AS event WITH OFFSET AS round
ORDER BY round, event.created_at, event.sequence, event.event_id
LIMIT @limit
