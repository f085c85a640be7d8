-- Reads events to publish, in order within their payment.
--
-- $1 buckets, $2 their epochs, $3 rows at most of a partner in a bucket, $4 rows at most.
-- A row: a pending event of a bucket whose lease holds. No row: nothing waits, or the leases are
-- lost.
--
-- Taken by state, so a row that committed late under a lower order id is not passed over. Events
-- behind a parked one of their payment wait with it. One row of each partner in each bucket after
-- the other, so that one partner's backlog is in front of nobody else's events, and those whose
-- events cannot be published now do not fill every answer. A payment is of one partner and in one
-- bucket, so its events keep their order.
--
-- Who waits where is found by a look into the index for each of them, however long their queues
-- are: a bucket in which nothing waits costs nothing. It begins at any bucket, and ends after 1 000
-- queues, so that of very many some are left to the next look; each gives less the more there are.
WITH RECURSIVE start AS MATERIALIZED (
  SELECT floor(random() * 64)::smallint AS bucket
), above (bucket, partner_id) AS (
  (
    SELECT bucket, partner_id FROM ledger.outbox
    WHERE state = 'pending' AND bucket >= (SELECT bucket FROM start)
    ORDER BY bucket, partner_id LIMIT 1
  )
  UNION ALL
  SELECT next.bucket, next.partner_id
  FROM above
  CROSS JOIN LATERAL (
    SELECT pending.bucket, pending.partner_id FROM ledger.outbox AS pending
    WHERE pending.state = 'pending'
      AND (pending.bucket, pending.partner_id) > (above.bucket, above.partner_id)
    ORDER BY pending.bucket, pending.partner_id LIMIT 1
  ) AS next
), below (bucket, partner_id) AS (
  (
    SELECT bucket, partner_id FROM ledger.outbox
    WHERE state = 'pending' AND bucket < (SELECT bucket FROM start)
    ORDER BY bucket, partner_id LIMIT 1
  )
  UNION ALL
  SELECT next.bucket, next.partner_id
  FROM below
  CROSS JOIN LATERAL (
    SELECT pending.bucket, pending.partner_id FROM ledger.outbox AS pending
    WHERE pending.state = 'pending'
      AND (pending.bucket, pending.partner_id) > (below.bucket, below.partner_id)
      AND pending.bucket < (SELECT bucket FROM start)
    ORDER BY pending.bucket, pending.partner_id LIMIT 1
  ) AS next
), waiting AS MATERIALIZED (
  SELECT bucket, partner_id
  FROM (SELECT * FROM above UNION ALL SELECT * FROM below) AS every
  LIMIT 1000
), queues AS MATERIALIZED (
  SELECT waiting.bucket, waiting.partner_id,
         greatest(1, least($3::integer, 4 * $4::integer / count(*) OVER ())) AS rows_max
  FROM unnest($1::smallint[], $2::bigint[]) AS wanted (bucket, epoch)
  JOIN ledger.outbox_leases AS lease
    ON lease.bucket = wanted.bucket AND lease.epoch = wanted.epoch AND lease.expires_at > now()
  JOIN waiting ON waiting.bucket = lease.bucket
)
SELECT event.*
FROM queues
CROSS JOIN LATERAL (
  SELECT
    order_id, event_id, event_type, txn_id, payment_id, bucket, sequence, payload, traceparent,
    row_number() OVER (ORDER BY order_id) AS round
  FROM ledger.outbox AS pending
  WHERE pending.bucket = queues.bucket AND pending.partner_id = queues.partner_id
    AND pending.state = 'pending' AND NOT EXISTS (
      SELECT FROM ledger.outbox AS parked
      WHERE parked.payment_id = pending.payment_id AND parked.state = 'parked'
        AND parked.order_id < pending.order_id
    )
  ORDER BY order_id
  LIMIT queues.rows_max
) AS event
ORDER BY event.round, event.order_id
LIMIT $4
