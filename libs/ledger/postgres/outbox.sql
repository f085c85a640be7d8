-- Statements of ledger.outbox beside its guarded steps: lease-buckets.sql and take.sql, and
-- settlement.sql and post.sql, which write it.

-- name: markPublished
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

-- name: park
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

-- name: releaseBuckets
-- Gives an owner's leases back. The epochs stay: the next owner of a bucket raises its epoch.
--
-- $1 owner. No row, ever.
WITH gone AS (
  DELETE FROM ledger.outbox_owners WHERE owner = $1::text
), held AS MATERIALIZED (
  SELECT bucket FROM ledger.outbox_leases WHERE owner = $1::text ORDER BY bucket FOR UPDATE
)
UPDATE ledger.outbox_leases AS lease SET owner = NULL, expires_at = now()
FROM held WHERE lease.bucket = held.bucket AND lease.owner = $1::text

-- name: reap
-- Takes events out of the outbox that were published long ago, oldest first.
--
-- $1 milliseconds for which they are kept, a day at least; $2 events at most.
-- Always one row: how many left. 0: none is old enough.
SELECT ledger.reap_outbox($1::float8 * interval '1 millisecond', $2::integer) AS reaped

-- name: republish
-- Lets published events wait for a dispatcher again: some of those that were published in a range
-- of time, oldest first, and the other events of their payments, without which a new consumer would
-- wait for ever for an earlier sequence.
--
-- $1 from, $2 to (not included), $3 events at most, not counting those other ones.
-- A row: an event that waits again. No row: none is left in the range. Whoever publishes an event
-- marks it with a time after the range, so a range comes to its end when `to` is in the past.
--
-- A stale mark cannot undo this: it compares the lease's epoch, and a live owner marks once.
--
-- It costs what it gives out, however much was published. Payments are looked up one by one, by
-- their index alone: a planner that knows nothing of the table, as after a restore from a dump,
-- would read all that was published for each of them. The caller turns off plans that read a whole
-- index or table first.
WITH chosen AS MATERIALIZED (
  SELECT payment_id FROM ledger.outbox
  WHERE state = 'published' AND published_at >= $1::timestamptz AND published_at < $2::timestamptz
  ORDER BY published_at, order_id
  LIMIT $3
), again AS (
  SELECT event.event_id
  FROM (SELECT DISTINCT payment_id FROM chosen) AS payment
  CROSS JOIN LATERAL (
    SELECT event_id, state, published_at FROM ledger.outbox
    WHERE payment_id = payment.payment_id
    OFFSET 0
  ) AS event
  WHERE event.state = 'published' AND event.published_at < $2::timestamptz
)
UPDATE ledger.outbox SET state = 'pending', published_at = NULL, published_epoch = NULL
WHERE event_id = ANY (ARRAY(SELECT event_id FROM again))
  AND state = 'published' AND published_at < $2::timestamptz
RETURNING event_id

-- name: redrive
-- Has a parked event wait for a dispatcher again, with every parked event of its payment, so that
-- their order holds.
--
-- $1 event id. A row: an event that waits again. No row: the event is not parked.
UPDATE ledger.outbox AS event SET state = 'pending', parked_reason = NULL
FROM ledger.outbox AS parked
WHERE parked.event_id = $1::uuid AND parked.state = 'parked'
  AND event.payment_id = parked.payment_id AND event.state = 'parked'
RETURNING event.event_id

-- name: pending
-- How much waits to be published, for how long the oldest of it, and how much is held: parked, or
-- behind a parked event of its payment, so that take.sql passes it over.
--
-- $1 how far rows are counted, $2 only what was made before then. Always one row.
--
-- A backlog makes this no slower: the counts end at $1, and the oldest is looked up per bucket and
-- partner, at the head of an index. Only held events are walked over. The caller turns off plans
-- that read a whole index or table first, which PostgreSQL prefers while its statistics do not know
-- of the backlog yet.
WITH RECURSIVE waiting (bucket, partner_id) AS (
  (
    SELECT bucket, partner_id FROM ledger.outbox WHERE state = 'pending'
    ORDER BY bucket, partner_id LIMIT 1
  )
  UNION ALL
  SELECT next.bucket, next.partner_id
  FROM waiting
  CROSS JOIN LATERAL (
    SELECT pending.bucket, pending.partner_id FROM ledger.outbox AS pending
    WHERE pending.state = 'pending'
      AND (pending.bucket, pending.partner_id) > (waiting.bucket, waiting.partner_id)
    ORDER BY pending.bucket, pending.partner_id LIMIT 1
  ) AS next
)
SELECT
  (
    SELECT count(*) FROM (
      SELECT FROM ledger.outbox AS event
      WHERE state = 'pending' AND created_at < $2::timestamptz AND NOT EXISTS (
        SELECT FROM ledger.outbox AS parked
        WHERE parked.payment_id = event.payment_id AND parked.state = 'parked'
          AND parked.order_id < event.order_id
      )
      ORDER BY bucket, partner_id, order_id
      LIMIT $1
    ) AS counted
  )::integer AS rows,
  (
    SELECT count(*) FROM (
      SELECT
      FROM (
        SELECT payment_id, min(order_id) AS since FROM ledger.outbox
        WHERE state = 'parked'
        GROUP BY payment_id
        LIMIT $1
      ) AS parked
      JOIN ledger.outbox AS event USING (payment_id)
      WHERE event.state IN ('pending', 'parked') AND event.order_id >= parked.since
        AND event.created_at < $2::timestamptz
      LIMIT $1
    ) AS counted
  )::integer AS held,
  coalesce(extract(epoch FROM now() - min(head.created_at)), 0)::float8 AS oldest_seconds
FROM waiting
CROSS JOIN LATERAL (
  SELECT created_at FROM ledger.outbox AS event
  WHERE bucket = waiting.bucket AND partner_id = waiting.partner_id AND state = 'pending'
    AND created_at < $2::timestamptz AND NOT EXISTS (
      SELECT FROM ledger.outbox AS parked
      WHERE parked.payment_id = event.payment_id AND parked.state = 'parked'
        AND parked.order_id < event.order_id
    )
  ORDER BY order_id
  LIMIT 1
) AS head

-- name: server
-- Which server answers, by the name that lease-buckets.sql gives it.
--
-- No parameters. Always one row.
SELECT ledger.this_server() AS server
