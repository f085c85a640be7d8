-- Lets published events wait for a dispatcher again: some of those that were published in a range
-- of time, oldest first, and the other events of their payments, without which a new consumer would
-- wait for ever for an earlier sequence.
--
-- $1 from, $2 to (not included), $3 events at most, not counting those other ones.
-- A row: an event that waits again. No row: none is left in the range. Whoever publishes an event
-- marks it with a time after the range, so a range comes to its end when `to` is in the past.
--
-- A stale mark cannot undo this: it compares the lease's epoch, and a live owner marks once.
WITH chosen AS MATERIALIZED (
  SELECT payment_id FROM ledger.outbox
  WHERE state = 'published' AND published_at >= $1::timestamptz AND published_at < $2::timestamptz
  ORDER BY published_at, order_id
  LIMIT $3
)
UPDATE ledger.outbox SET state = 'pending', published_at = NULL, published_epoch = NULL
WHERE payment_id IN (SELECT payment_id FROM chosen)
  AND state = 'published' AND published_at < $2::timestamptz
RETURNING event_id
