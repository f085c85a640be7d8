-- What the notifier and its sender did about events against what was published; assembled with the
-- auditor's own checks (services/auditor/checks/consumers.sql says what a row is).

-- name: inbox_missing
-- Events that are marked as published and that the notifier has neither applied nor kept early. Of
-- one that left the inbox by age the cursor says that it was applied.
WITH missing AS MATERIALIZED (
  SELECT * FROM ledger.outbox
  WHERE state = 'published' AND published_at >= $1 AND published_at < $2
    AND NOT EXISTS (
      SELECT FROM auditor.applied_of($1, $2) AS applied
      WHERE applied.consumer = 'partner-notifier' AND applied.event_id = outbox.event_id
    )
)
SELECT event_id::text AS id, published_at AS since
FROM missing
WHERE NOT EXISTS (
  SELECT FROM notifier.inbox_horizons
  JOIN notifier.cursors USING (consumer)
  WHERE consumer = 'partner-notifier'
    AND missing.created_at < inbox_horizons.reaped_before
    AND cursors.ordering_key = missing.payment_id
    AND cursors.last_sequence >= missing.sequence
  OFFSET 0
)
AND NOT EXISTS (
  SELECT FROM notifier.early_events
  WHERE early_events.consumer = 'partner-notifier' AND early_events.event_id = missing.event_id
  OFFSET 0
)

-- name: delivery_waiting
-- Webhooks that the sender has still to send, to release or to cancel. One that is sent once more
-- waits since it was asked for; one that is parked, since its endpoint is open, or its partner has
-- one that is; any, given up too, since its endpoint was deleted.
WITH opened AS MATERIALIZED (
  SELECT partner_id, min(open_since) AS open_since FROM partners.open_webhook_endpoints
  GROUP BY partner_id
)
SELECT webhooks.delivery_name(deliveries.event_id, deliveries.ordinal) AS id,
       greatest(coalesce(first_attempt_at, next_attempt_at), deleted_at,
                CASE WHEN state = 'parked'
                  THEN coalesce(endpoint.open_since, opened.open_since) END) AS since
FROM webhooks.deliveries
LEFT JOIN partners.open_webhook_endpoints AS endpoint
  ON endpoint.endpoint_id = deliveries.endpoint_id
LEFT JOIN opened ON opened.partner_id = deliveries.partner_id
LEFT JOIN partners.deleted_webhook_endpoints AS deleted
  ON deleted.endpoint_id = deliveries.endpoint_id
WHERE (state = 'pending' OR state = 'parked' OR state = 'failed')
  AND NOT EXISTS (
    SELECT FROM auditor.waiting_deliveries AS waiting
    WHERE waiting.event_id = deliveries.event_id AND waiting.ordinal = deliveries.ordinal
  )

-- name: delivery_refused
-- Webhooks that wait because their partner's server does not take them.
SELECT webhooks.delivery_name(event_id, ordinal) AS id, partner_id AS partner, since
FROM auditor.waiting_deliveries
WHERE because = 'refused'

-- name: delivery_parked
-- Webhooks that wait because their endpoint is not open, or their partner has none.
SELECT webhooks.delivery_name(event_id, ordinal) AS id, partner_id AS partner, since
FROM auditor.waiting_deliveries
WHERE because = 'parked'

-- name: reaped_differs_from_published
-- Partner, type and currency of which other deliveries were removed by age than are no longer
-- there, in number or to the minor unit. Of first ones that follows from what was published; of
-- `others`, to a partner's second and further endpoints, from the first ones, there or removed,
-- which say how many were made with each.
WITH gone AS (
  SELECT published.partner_id, published.event_type, coalesce(published.currency, '') AS currency,
         count(*) AS deliveries, coalesce(sum(published.amount), 0) AS amount
  FROM auditor.published
  LEFT JOIN notifier.cursors
    ON cursors.consumer = 'partner-notifier' AND cursors.ordering_key = published.payment_id
  WHERE NOT EXISTS (
    SELECT FROM webhooks.deliveries
    WHERE deliveries.event_id = published.event_id AND deliveries.ordinal = 1
  )
    AND (
      published.sequence <= cursors.last_sequence
      OR published.sequence IS NULL AND EXISTS (
        SELECT FROM notifier.inbox
        WHERE inbox.consumer = 'partner-notifier' AND inbox.event_id = published.event_id
      )
    )
  GROUP BY 1, 2, 3
)
SELECT concat_ws('/', partner_id, event_type, currency) AS id,
       greatest((SELECT reaped_before FROM webhooks.deliveries_horizon), 'epoch') AS since
FROM gone
FULL JOIN (
  SELECT partner_id, event_type, currency, sum(deliveries) AS deliveries, sum(amount) AS amount
  FROM webhooks.reaped_deliveries
  WHERE ordinal = 1
  GROUP BY 1, 2, 3
) AS reaped USING (partner_id, event_type, currency)
WHERE (gone.deliveries, gone.amount) IS DISTINCT FROM (reaped.deliveries, reaped.amount)
UNION ALL
SELECT concat_ws('/', partner_id, event_type, currency, 'others'),
       greatest((SELECT reaped_before FROM webhooks.deliveries_horizon), 'epoch')
FROM (
  -- What was made with the first ones, less what is there, less what was removed.
  SELECT partner_id, sent ->> 'type' AS event_type,
         coalesce(sent #>> '{data,currency}', '') AS currency, missing,
         missing * coalesce((sent #>> '{data,amount}')::numeric, 0) AS amount
  FROM webhooks.deliveries
  CROSS JOIN LATERAL (
    SELECT deliveries.body::json AS sent,
           CASE WHEN ordinal = 1 THEN made_together - 1 ELSE -1 END AS missing
  ) AS webhook
  WHERE ordinal > 1 OR made_together > 1
  UNION ALL
  SELECT partner_id, event_type, currency,
         others - CASE WHEN ordinal > 1 THEN deliveries ELSE 0 END,
         others_amount - CASE WHEN ordinal > 1 THEN amount ELSE 0 END
  FROM webhooks.reaped_deliveries
) AS others
GROUP BY partner_id, event_type, currency
HAVING sum(missing) <> 0 OR sum(amount) <> 0

-- name: delivery_differs_from_inbox
-- Applied events without their first delivery, and deliveries without an applied event, but for
-- those of which one of the two left by age.
SELECT event_id::text AS id, received_at AS since
FROM notifier.inbox
WHERE consumer = 'partner-notifier'
  AND received_at >= $1 AND received_at < $2
  AND received_at >= (SELECT reaped_before FROM webhooks.deliveries_horizon)
  AND NOT EXISTS (
    SELECT FROM auditor.deliveries_of($1, $2) AS deliveries
    WHERE deliveries.event_id = inbox.event_id AND deliveries.ordinal = 1
  )
UNION ALL
SELECT webhooks.delivery_name(event_id, ordinal), created_at
FROM webhooks.deliveries
WHERE created_at >= $1 AND created_at < $2
  AND created_at >= coalesce(
    (SELECT reaped_before FROM notifier.inbox_horizons WHERE consumer = 'partner-notifier'),
    '-infinity'
  )
  AND NOT EXISTS (
    SELECT FROM auditor.applied_of($1, $2) AS applied
    WHERE applied.consumer = 'partner-notifier' AND applied.event_id = deliveries.event_id
  )

-- name: delivery_differs_from_endpoints
-- Events of which an endpoint got no delivery that wanted the type when the others were made, and
-- deliveries to an endpoint that is not the event's partner's, or never wanted the type since. A
-- minute is left for what was changed while they were made. What none wanted, and what waits for a
-- partner's first endpoint, has a delivery to none.
WITH firsts AS NOT MATERIALIZED (
  SELECT event_id, partner_id, body, created_at FROM webhooks.deliveries
  WHERE created_at >= $1 AND created_at < $2 AND ordinal = 1
    AND created_at >= (SELECT reaped_before FROM webhooks.deliveries_horizon)
)
SELECT firsts.event_id::text AS id, firsts.created_at AS since
FROM firsts
JOIN partners.endpoint_wants AS wants
  ON wants.partner_id = firsts.partner_id
 AND wants.since < firsts.created_at - interval '1 minute'
 AND wants.until > firsts.created_at + interval '1 minute'
WHERE (wants.event_types IS NULL OR firsts.body::json ->> 'type' = ANY (wants.event_types))
  AND NOT EXISTS (
    SELECT FROM auditor.deliveries_of($1, $2) AS deliveries
    WHERE deliveries.event_id = firsts.event_id AND deliveries.endpoint_id = wants.endpoint_id
  )
UNION ALL
SELECT webhooks.delivery_name(event_id, ordinal), created_at
FROM webhooks.deliveries
WHERE created_at >= $1 AND created_at < $2
  AND endpoint_id <> '00000000-0000-0000-0000-000000000000'
  AND NOT EXISTS (
    SELECT FROM partners.endpoint_wants AS wants
    WHERE wants.endpoint_id = deliveries.endpoint_id AND wants.partner_id = deliveries.partner_id
      AND wants.until > deliveries.created_at - interval '1 minute'
      AND (wants.event_types IS NULL OR deliveries.body::json ->> 'type' = ANY (wants.event_types))
  )

-- name: delivery_tells_otherwise
-- Deliveries to another partner than the event's, of another transaction, or with other bytes than
-- the event ends with: from its type on it is what its webhook says.
SELECT webhooks.delivery_name(event_id, deliveries.ordinal) AS id, deliveries.created_at AS since
FROM webhooks.deliveries
JOIN auditor.outbox_of($1, $2) AS outbox USING (event_id)
WHERE deliveries.created_at >= $1 AND deliveries.created_at < $2
  AND (
    deliveries.partner_id <> outbox.partner_id
    OR deliveries.txn_id <> outbox.txn_id
    OR deliveries.body
      <> '{' || substr(outbox.payload, strpos(outbox.payload, '"type":"'))
  )

-- name: feed_out_of_order
-- Events that stand in their partner's feed above the one that came before them of their payment.
WITH pairs AS MATERIALIZED (
  SELECT event_id, lag(event_id) OVER (PARTITION BY payment_id ORDER BY sequence) AS before_id
  FROM auditor.outbox_of($1, $2)
  WHERE sequence IS NOT NULL
)
SELECT event_id::text AS id, its.created_at AS since
FROM pairs
CROSS JOIN LATERAL (
  SELECT position, created_at FROM webhooks.deliveries
  WHERE deliveries.event_id = pairs.event_id AND ordinal = 1 OFFSET 0
) AS its
CROSS JOIN LATERAL (
  SELECT position FROM webhooks.deliveries
  WHERE deliveries.event_id = before_id AND ordinal = 1 OFFSET 0
) AS before
WHERE before_id IS NOT NULL AND its.position < before.position
  AND its.created_at >= $1 AND its.created_at < $2

-- name: delivery_differs_from_attempts
-- Deliveries that say of their attempts what those were not: delivered by none that was answered
-- with a 2xx, given up after one that was, or with another end, time or number of the last one. An
-- attempt that was begun and not recorded leaves no row.
SELECT webhooks.delivery_name(deliveries.event_id, deliveries.ordinal) AS id,
       coalesce(deliveries.finished_at, deliveries.created_at) AS since
FROM webhooks.deliveries
LEFT JOIN LATERAL (
  SELECT attempt, status, error, recorded_at
  FROM webhooks.delivery_attempts
  WHERE delivery_attempts.event_id = deliveries.event_id
    AND delivery_attempts.ordinal = deliveries.ordinal
  ORDER BY attempt DESC
  LIMIT 1
) AS last ON true
WHERE deliveries.created_at >= $1 AND deliveries.created_at < $2
  AND (
    (deliveries.last_outcome, deliveries.last_status, deliveries.last_error) IS DISTINCT FROM (
      CASE
        WHEN last.status BETWEEN 200 AND 299 THEN 'delivered'
        WHEN last.status IS NOT NULL THEN 'refused'
        WHEN last.attempt IS NOT NULL AND deliveries.last_outcome IN ('unanswered', 'unsendable')
          THEN deliveries.last_outcome
      END,
      last.status,
      last.error
    )
    OR last.attempt > deliveries.attempts
    OR deliveries.state IN ('delivered', 'failed') AND (
      deliveries.state, deliveries.attempts, deliveries.finished_at
    ) IS DISTINCT FROM (
      CASE WHEN last.status BETWEEN 200 AND 299 THEN 'delivered' ELSE 'failed' END,
      last.attempt,
      last.recorded_at
    )
  )

-- name: delivery_given_up
-- Webhooks that were given up, because their partner's server did not take them for a day. They
-- wait for somebody to ask for them again once it does, or to dismiss them.
SELECT webhooks.delivery_name(event_id, ordinal) AS id, partner_id AS partner, since
FROM auditor.waiting_deliveries
WHERE because = 'failed'
