-- A partner's feed: its events in the order of their positions, by the views of the schema webhooks
-- (webhooks/migrations/0001-baseline.sql).

-- name: readEvents
-- The next events of a feed, none of which anything can come before any more.
--
-- $1 partner id, $2 the position behind which it begins, $3 events at most, $4 bytes of what they
-- say at most, but for the first; $5 and $6 how what they say begins, or nulls; $7 among how many
-- events those are looked for; $8 whether it begins anew, and so behind all that left by age: what
-- is there of before has gaps; $9 the transaction that they are of, or null for any.
-- A row: one event, with how many there were of $3 + 1 before they were cut by their bytes. Always
-- a row, without an `event_id` when there is none. It began behind `began_at`; `looked_at` events
-- were looked at, up to the position `looked_to`; `reaped_to` is the last that left the feed.
WITH began AS MATERIALIZED (
  SELECT CASE WHEN $8::boolean THEN greatest($2::bigint, reaped_to) ELSE $2::bigint END AS began_at,
         reaped_to
  FROM (VALUES (1)) AS always
  LEFT JOIN LATERAL (
    SELECT reaped_position FROM webhooks.feed_horizons WHERE partner_id = $1
  ) AS horizon (reaped_to) ON true
), looked AS MATERIALIZED (
  SELECT max(position) AS looked_to, count(*)::integer AS looked_at
  FROM (
    SELECT position FROM webhooks.partner_events
    WHERE partner_id = $1 AND position > (SELECT began_at FROM began)
      AND ($9::uuid IS NULL OR txn_id = $9)
    ORDER BY position
    LIMIT $7
  ) AS next
)
SELECT page.event_id, page.position, page.body, coalesce(page.found, 0)::integer AS found,
       looked.looked_to, looked.looked_at, began.began_at, began.reaped_to
FROM began
CROSS JOIN looked
LEFT JOIN LATERAL (
  SELECT *,
         row_number() OVER page AS place,
         sum(octet_length(body)) OVER page AS bytes,
         count(*) OVER () AS found
  FROM (
    SELECT event_id, position, body FROM webhooks.partner_events
    WHERE partner_id = $1 AND position > (SELECT began_at FROM began)
      AND position <= looked.looked_to
      AND ($9::uuid IS NULL OR txn_id = $9)
      AND ($5::text IS NULL OR starts_with(body, $5))
      AND ($6::text IS NULL OR starts_with(body, $6))
    ORDER BY position
    LIMIT $3::integer + 1
  ) AS next
  WINDOW page AS (ORDER BY position)
) AS page ON page.place <= $3::integer AND (page.place = 1 OR page.bytes <= $4::integer)
ORDER BY page.position
