-- What `npm run load -- behind` reads of a system, as the role that reads everything.

-- name: now
-- The time of the database. No parameters. Always one row.
SELECT clock_timestamp()::text AS now

-- name: hops
-- When the payments of each partner were through each stage, whose events were written since.
--
-- $1 since. A row: a partner, how many payments it has, and the median and the last of them in
-- seconds since the first of all partners was posted. Times are those of the database: posted is
-- when the statement that made the event began, received is when its delivery was made.
WITH through AS (
  SELECT
    outbox.partner_id, outbox.created_at AS posted, outbox.published_at AS published,
    deliveries.created_at AS received, deliveries.finished_at AS delivered,
    min(outbox.created_at) OVER () AS began
  FROM ledger.outbox JOIN webhooks.deliveries USING (event_id)
  WHERE outbox.created_at >= $1::timestamptz
)
SELECT
  partner_id AS partner, count(*)::integer AS payments,
  extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY posted) - min(began))::float8
    AS posted_median,
  extract(epoch FROM max(posted) - min(began))::float8 AS posted_last,
  extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY published) - min(began))::float8
    AS published_median,
  extract(epoch FROM max(published) - min(began))::float8 AS published_last,
  extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY received) - min(began))::float8
    AS received_median,
  extract(epoch FROM max(received) - min(began))::float8 AS received_last,
  extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY delivered) - min(began))::float8
    AS delivered_median,
  extract(epoch FROM max(delivered) - min(began))::float8 AS delivered_last
FROM through
GROUP BY partner_id
ORDER BY partner_id
