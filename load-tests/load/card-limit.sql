-- What `npm run load -- card-limit` reads of a system, as the role that reads everything.

-- name: now
-- The time of the database. No parameters. Always one row.
SELECT clock_timestamp()::text AS now

-- name: waits
-- How long the cards of each partner waited for their end, that were accepted since.
--
-- $1 since. A row: a partner, how many cards it paid, the median and the longest time from when one
-- was accepted until it was final, and from when the first was accepted until the last was final;
-- seconds.
SELECT
  partner_id AS partner, count(*)::integer AS cards,
  extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY settled_at - created_at))::float8
    AS median,
  extract(epoch FROM max(settled_at - created_at))::float8 AS longest,
  extract(epoch FROM max(settled_at) - min(created_at))::float8 AS all
FROM ledger.transactions
WHERE created_at >= $1::timestamptz AND kind = 'payment' AND payment_method IS NOT NULL
GROUP BY partner_id
ORDER BY partner_id
