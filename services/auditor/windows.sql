-- What there is of everything, window by window.
--
-- Each figure is of the window of what never leaves: of a request when it was first seen, of a
-- transaction when it was settled, of an event when the auditor first saw it, whatever is asked
-- about the event in the other layers, and of the provider's when that was last changed. So a
-- figure of a window in which all has come to its end stays what it is while rows leave elsewhere
-- by age.

-- name: sumWindow
-- Number and sum of what each layer has of a window per partner and currency, in minor units.
--
-- $1 from, $2 until. A row: one figure of one layer; sumUnfinished says what is to be taken off all
-- of them together. `payments` are all of them, whatever became of them. `gross` are the payments
-- that succeeded, and captures of those that were authorised first, and `refunds` what of them was
-- given back; `charged` and `givenBack` are those of
-- cards. What was delivered says the delivery; of one that left by age the event.
WITH booked AS MATERIALIZED (
  SELECT partner_id, currency, kind, state,
         coalesce(settled.payment_method, payments.payment_method) IS NOT NULL AS by_card,
         coalesce(settled.provider, payments.provider) AS provider,
         count(*) AS number, sum(amount) AS amount
  FROM auditor.settled_between($1, $2) AS settled
  LEFT JOIN LATERAL (
    SELECT payment_method, provider FROM ledger.transactions
    WHERE transactions.txn_id = settled.payment_id
    OFFSET 0
  ) AS payments ON true
  WHERE currency IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5, 6
), notified AS MATERIALIZED (
  SELECT 'published' AS layer, partner_id, event_type, currency, count(*) AS number,
         sum(amount) AS amount
  FROM auditor.published
  WHERE first_seen >= $1 AND first_seen < $2 AND currency IS NOT NULL
  GROUP BY partner_id, event_type, currency
  UNION ALL
  SELECT 'delivered', partner_id, event_type, currency, count(*), sum(amount)
  FROM auditor.delivered_between($1, $2)
  WHERE currency IS NOT NULL
  GROUP BY partner_id, event_type, currency
), seen AS (
  SELECT 'payments' AS figure, 'accepted' AS layer, NULL AS provider, partner_id, currency,
         count(*) AS number, sum(amount) AS amount
  FROM auditor.accepted
  WHERE first_seen >= $1 AND first_seen < $2 AND kind = 'payment'
  GROUP BY partner_id, currency
  UNION ALL
  SELECT 'payments', 'ledger', NULL, partner_id, currency, number, amount FROM booked
  WHERE kind = 'payment'
  UNION ALL
  SELECT CASE kind WHEN 'refund' THEN 'refunds' ELSE 'gross' END, 'ledger', NULL,
         partner_id, currency, number, amount
  FROM booked
  WHERE state = 'succeeded' AND kind IN ('payment', 'capture', 'refund')
  UNION ALL
  SELECT CASE kind WHEN 'refund' THEN 'givenBack' ELSE 'charged' END, 'ledger', provider,
         partner_id, currency, number, amount
  FROM booked
  WHERE state = 'succeeded' AND by_card AND kind IN ('payment', 'capture', 'refund')
  UNION ALL
  SELECT CASE kind WHEN 'refund' THEN 'givenBack' ELSE 'charged' END, 'provider', provider,
         partner_id, currency, count(*), sum(amount)
  FROM auditor.provider_journal
  WHERE changed_at >= $1 AND changed_at < $2
    AND kind IN ('charge', 'refund') AND status = 'succeeded' AND partner_id IS NOT NULL
    AND NOT EXISTS (
      SELECT FROM auditor.returned WHERE id IN (returned.charge_id, returned.refund_id)
    )
  GROUP BY kind, provider, partner_id, currency
  UNION ALL
  SELECT 'payments', layer, NULL, partner_id, currency, number, amount FROM notified
  WHERE event_type IN (
    'payment.succeeded', 'payment.captured', 'payment.failed', 'payment.canceled'
  )
  UNION ALL
  SELECT CASE event_type WHEN 'refund.succeeded' THEN 'refunds' ELSE 'gross' END, layer, NULL,
         partner_id, currency, number, amount
  FROM notified
  WHERE event_type IN ('payment.succeeded', 'capture.succeeded', 'refund.succeeded')
)
SELECT partner_id AS partner, currency, figure, layer, provider,
       sum(number)::text AS count, sum(amount)::text AS amount
FROM seen
GROUP BY partner_id, currency, figure, layer, provider
ORDER BY partner_id, currency, figure, layer, provider

-- name: sumUnfinished
-- What the sums of all windows together have too much of, as rows of numbers below zero, and what
-- waits for others, as layers of its own.
--
-- Requests that lost their key or were dead-lettered are no transaction anywhere, nor are those of
-- which a person acknowledged that Kafka lost them; of what it lost after a worker had read it the
-- ledger says what was accepted. An event is delivered once its partner has its first delivery, or
-- wants it no more. `undelivered` ones wait for their partner's endpoint, or did until they left by
-- age, and `unfinished` payments wait for a customer, their partner or a bank and have no event yet
-- that they ended: so ledger = unfinished + published, and published = undelivered + delivered.
WITH set_aside AS MATERIALIZED (
  SELECT txn_id, fingerprint FROM auditor.dead_letters WHERE txn_id IS NOT NULL
  UNION
  SELECT txn_id, fingerprint
  FROM auditor.acknowledged
  JOIN auditor.accepted USING (txn_id)
  WHERE had_by = 'accepted' AND done_at >= first_seen
), undelivered AS MATERIALIZED (
  SELECT partner_id, event_type, currency, waits, deliveries AS number, amount
  FROM auditor.undelivered_sums
), changes AS (
  SELECT 'payments' AS figure, 'accepted' AS layer, partner_id, currency, -1 AS number,
         -amount AS amount
  FROM set_aside
  JOIN auditor.accepted USING (txn_id, fingerprint)
  WHERE kind = 'payment' AND NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.txn_id = accepted.txn_id AND transactions.fingerprint = accepted.fingerprint
  )
  UNION ALL
  SELECT 'payments', 'accepted', partner_id, currency, 1, amount
  FROM auditor.acknowledged
  JOIN ledger.transactions AS booked USING (txn_id)
  WHERE had_by = 'ledger' AND kind = 'payment' AND NOT EXISTS (
    SELECT FROM auditor.accepted
    WHERE accepted.txn_id = booked.txn_id AND accepted.fingerprint = booked.fingerprint
  )
  UNION ALL
  SELECT 'payments', 'unfinished', transactions.partner_id, currency, 1, amount
  FROM auditor.waiting_outside
  JOIN ledger.transactions USING (txn_id)
  WHERE kind = 'payment'
  UNION ALL
  SELECT figure, layer, partner_id, currency, sign * number, sign * amount
  FROM undelivered
  JOIN (
    VALUES ('payments', 'payment.succeeded'), ('payments', 'payment.captured'),
           ('payments', 'payment.failed'), ('payments', 'payment.canceled'),
           ('gross', 'payment.succeeded'), ('gross', 'capture.succeeded'),
           ('refunds', 'refund.succeeded')
  ) AS figures (figure, event_type) USING (event_type)
  JOIN (VALUES ('delivered', -1), ('undelivered', 1)) AS layers (layer, sign)
    ON layer = 'delivered' OR waits
  WHERE currency <> ''
)
SELECT partner_id AS partner, currency, figure, layer,
       sum(number)::text AS count, sum(amount)::text AS amount
FROM changes
GROUP BY partner_id, currency, figure, layer

-- name: countWindow
-- How much there is of everything in a window. Always one row.
--
-- $1 from, $2 until. `accepted` is every distinct request in the topic, readable or not, so that it
-- equals ledger rows, dead letters and key conflicts together. What left by age is still counted.
-- `charges` are the provider's, that succeeded. An event that was never seen published is counted
-- when it was marked, or by countUnfinished.
SELECT
  (SELECT count(*) FROM auditor.accepted WHERE first_seen >= $1 AND first_seen < $2)
    + (SELECT count(*) FROM auditor.accepted_refused WHERE first_seen >= $1 AND first_seen < $2)
    AS accepted,
  (SELECT count(*) FROM auditor.settled_between($1, $2)) AS ledger,
  (SELECT count(*) FROM ledger.outbox
   WHERE event_type = 'payment.key_conflict' AND created_at >= $1 AND created_at < $2)
    AS "keyConflicts",
  (SELECT count(*) FROM auditor.charges
   WHERE status = 'succeeded' AND changed_at >= $1 AND changed_at < $2) AS charges,
  (SELECT count(*) FROM auditor.known_to_outbox($1, $2))
    + (SELECT count(*) FROM ledger.outbox
       WHERE state = 'published' AND published_at >= $1 AND published_at < $2
         AND NOT EXISTS (SELECT FROM auditor.published_of($1, $2) AS published
                         WHERE published.event_id = outbox.event_id))
    AS events,
  (SELECT count(*) FROM auditor.published WHERE first_seen >= $1 AND first_seen < $2) AS published,
  (SELECT count(*) FROM auditor.notified_in($1, $2)) AS inbox,
  (SELECT count(*) FROM auditor.delivered_between($1, $2)) AS deliveries,
  0::bigint AS "deadLettered",
  0::bigint AS undelivered

-- name: countUnfinished
-- What the counts of all windows together lack, or have too much of. Always one row.
--
-- A dead letter that lost its key is a key conflict, and one that was posted later is a ledger row:
-- neither is counted as a dead letter. `undelivered` are webhooks that wait for their partner's
-- endpoint, and those that left without having been delivered.
WITH undelivered AS MATERIALIZED (
  SELECT waits, deliveries FROM auditor.undelivered_sums
)
SELECT
  (SELECT count(*) FROM auditor.dead_letters WHERE txn_id IS NULL)
    + (SELECT count(DISTINCT (txn_id, fingerprint)) FROM auditor.dead_letters
       WHERE txn_id IS NOT NULL
         AND NOT EXISTS (SELECT FROM ledger.transactions
                         WHERE transactions.txn_id = dead_letters.txn_id)) AS "deadLettered",
  (SELECT count(*) FROM ledger.outbox
   WHERE (state = 'pending' OR state = 'parked')
     AND NOT EXISTS (SELECT FROM auditor.published WHERE published.event_id = outbox.event_id))
    AS events,
  (SELECT -coalesce(sum(deliveries), 0)::bigint FROM undelivered) AS deliveries,
  (SELECT coalesce(sum(deliveries) FILTER (WHERE waits), 0)::bigint FROM undelivered) AS undelivered

-- name: beginning
-- When anything was first seen. `null`: nothing was.
SELECT least(
  (SELECT min(first_seen) FROM auditor.accepted),
  (SELECT min(settled_at) FROM ledger.transactions),
  (SELECT min(first_seen) FROM auditor.published)
)::text AS beginning

-- name: measureSpan
-- How much there is from $1 on, in a span that begins at $2 and lasts for $3 seconds, but ends at
-- $4 and $5 seconds ago at the latest. $6 rows: no more are counted of a layer.
--
-- No row: it ends before it begins. A row: when it ends, whether it could have been longer but for
-- $4 or $5, and the most rows that a layer has there.
WITH span AS MATERIALIZED (
  SELECT least($2::timestamptz + $3::float8 * interval '1 second', latest) AS until,
         $2::timestamptz + $3::float8 * interval '1 second' >= latest AS reaches_end
  FROM (SELECT least($4::timestamptz, now() - $5::float8 * interval '1 second') AS latest) AS ends
)
SELECT until::text, reaches_end AS "reachesEnd", greatest(
  (SELECT count(*) FROM (
     SELECT FROM auditor.accepted WHERE first_seen >= $1 AND first_seen < until LIMIT $6
   ) AS limited),
  (SELECT count(*) FROM (
     SELECT FROM ledger.transactions WHERE settled_at >= $1 AND settled_at < until LIMIT $6
   ) AS limited),
  (SELECT count(*) FROM (
     SELECT FROM auditor.published WHERE first_seen >= $1 AND first_seen < until LIMIT $6
   ) AS limited)
)::integer AS rows
FROM span
WHERE until > $2
