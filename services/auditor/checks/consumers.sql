-- What consumers did about events against what was published.
--
-- A row: an offending `id`, and `since` when it has been one. No row: the check holds. checks.ts
-- says when it must, and what the window from $1 until $2 is.

-- name: event_early
-- Events that a consumer keeps until the one before came. That one is in flight like any other, or
-- another check names it; nobody outside is waited for.
SELECT event_id::text AS id, min(kept_at) AS since
FROM consumers.early_events AS early
WHERE NOT EXISTS (
  SELECT FROM consumers.cursors
  WHERE cursors.consumer = early.consumer AND cursors.ordering_key = early.ordering_key
    AND cursors.last_sequence >= early.sequence
  OFFSET 0
)
GROUP BY event_id

-- name: inbox_unfounded
-- Events that a consumer applied and that are not in the outbox, or with other bytes than the
-- auditor received. One that left the outbox by age was seen by the auditor.
WITH inbox AS MATERIALIZED (
  SELECT event_id, payload_hash, received_at FROM consumers.inbox
  WHERE received_at >= $1 AND received_at < $2
), doubtful AS MATERIALIZED (
  -- Few, and only these are worth a closer look.
  SELECT * FROM inbox
  WHERE NOT EXISTS (
    SELECT FROM auditor.published_of($1, $2) AS published
    WHERE published.event_id = inbox.event_id AND published.payload_hash = inbox.payload_hash
  )
  UNION
  SELECT * FROM inbox
  WHERE NOT EXISTS (
    SELECT FROM auditor.outbox_of($1, $2) AS outbox WHERE outbox.event_id = inbox.event_id
  )
)
SELECT event_id::text AS id, min(doubtful.received_at) AS since
FROM doubtful
LEFT JOIN LATERAL (
  SELECT txn_id, event_type, payload_hash FROM auditor.published
  WHERE published.event_id = doubtful.event_id OFFSET 0
) AS published ON true
WHERE doubtful.payload_hash <> published.payload_hash
  OR NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = doubtful.event_id OFFSET 0)
    AND NOT auditor.left_outbox(published.txn_id, published.event_type, event_id)
GROUP BY event_id

-- name: inbox_altered
-- Events of which a consumer received copies with other bytes.
SELECT event_id::text AS id, min(first_seen) AS since
FROM consumers.altered_copies
GROUP BY event_id

-- name: cursor_differs_from_inbox
-- Payments of which a consumer's cursor is behind an event that it applied, ahead of one that it
-- did not, or ahead of all that the ledger numbered: it would take the next one for a copy. An
-- event may have left the inbox by age. A refund whose partner has no such payment is ordered by
-- itself.
--
-- A cursor has no time, so each is looked up by its payment, once for all three questions.
WITH cursors AS MATERIALIZED (
  SELECT consumer, ordering_key, last_sequence
  FROM (
    SELECT ordering_key FROM consumers.inbox WHERE received_at >= $1 AND received_at < $2
    UNION
    SELECT payment_id FROM ledger.outbox
    WHERE state = 'published' AND published_at >= $1 AND published_at < $2
    UNION
    SELECT txn_id FROM auditor.settled_between($1, $2)
  ) AS payments (id)
  CROSS JOIN LATERAL (
    SELECT * FROM consumers.cursors WHERE ordering_key = id OFFSET 0
  ) AS cursors
)
SELECT ordering_key::text AS id, min(since) AS since
FROM (
  SELECT inbox.ordering_key, inbox.received_at AS since
  FROM consumers.inbox
  WHERE inbox.received_at >= $1 AND inbox.received_at < $2 AND inbox.sequence IS NOT NULL
    AND NOT EXISTS (
      SELECT FROM cursors
      WHERE cursors.consumer = inbox.consumer AND cursors.ordering_key = inbox.ordering_key
        AND cursors.last_sequence >= inbox.sequence
    )
  UNION ALL
  SELECT outbox.payment_id, outbox.published_at
  FROM ledger.outbox
  JOIN cursors ON cursors.ordering_key = outbox.payment_id
  WHERE outbox.state = 'published' AND outbox.published_at >= $1 AND outbox.published_at < $2
    AND cursors.last_sequence >= outbox.sequence
    AND NOT EXISTS (
      SELECT FROM auditor.applied_of($1, $2) AS applied
      WHERE applied.consumer = cursors.consumer AND applied.event_id = outbox.event_id
        AND applied.ordering_key = outbox.payment_id AND applied.sequence = outbox.sequence
    )
    AND NOT EXISTS (
      SELECT FROM consumers.inbox_horizons
      WHERE inbox_horizons.consumer = cursors.consumer
        AND outbox.created_at < inbox_horizons.reaped_before
    )
  UNION ALL
  SELECT settled.txn_id, settled.created_at
  FROM auditor.settled_between($1, $2) AS settled
  JOIN cursors ON cursors.ordering_key = settled.txn_id
  WHERE cursors.last_sequence > CASE WHEN settled.payment_id IS NULL THEN settled.events ELSE 1 END
) AS differing
GROUP BY ordering_key

-- name: reaped_differs_from_missing
-- Tables from which more or less was removed by age than is missing from them, or of which
-- something younger than a day was, as <table>/<missing>/<removed>/<before>. What was ever there
-- follows from what is never removed: each end of a transaction is one event, and so is each
-- customer who has to act, each authorisation and each dispute; each step of a cursor is one row of
-- an inbox, and each event that the notifier applied one first delivery, which says how many others
-- were made with it. A copy of a ledger may have begun when some of its events had left.
SELECT
  concat_ws(
    '/', name, missing, removed,
    to_char(reaped_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  ) AS id,
  now() AS since
FROM (
  SELECT name, sum(missing) AS missing, sum(removed) AS removed,
         max(coalesce(before, '-infinity')) AS reaped_before
  FROM (
    SELECT 'ledger.outbox' AS name,
           count(*) FILTER (WHERE state <> 'pending') + count(action_expires_at)
             + count(authorized_at) AS missing,
           0 AS removed, NULL::timestamptz AS before
    FROM ledger.transactions
    UNION ALL
    SELECT 'ledger.outbox', count(*), 0, NULL FROM ledger.disputes
    UNION ALL
    SELECT 'ledger.outbox', -count(*), 0, NULL FROM ledger.outbox WHERE sequence IS NOT NULL
    UNION ALL
    SELECT 'ledger.outbox', 0, events, reaped_before FROM ledger.outbox_horizon
    -- --- reaped, by npm run generate: audit/reaped.sql of each
    UNION ALL
    SELECT 'webhooks.deliveries', sum(last_sequence), 0, NULL FROM notifier.cursors
    UNION ALL
    SELECT 'webhooks.deliveries', count(*), 0, NULL FROM notifier.inbox WHERE sequence IS NULL
    UNION ALL
    SELECT 'webhooks.deliveries', sum(CASE WHEN ordinal = 1 THEN made_together - 2 ELSE -1 END),
           0, NULL
    FROM webhooks.deliveries
    UNION ALL
    SELECT 'webhooks.deliveries', others, deliveries, NULL FROM webhooks.reaped_deliveries
    UNION ALL
    SELECT 'webhooks.deliveries', 0, 0, reaped_before FROM webhooks.deliveries_horizon
    -- --- end of reaped
    UNION ALL
    -- By the schema that an inbox is in, and its consumer.
    SELECT split_part(tableoid::regclass::text, '.', 1) || '.inbox/' || consumer,
           missing, removed, before
    FROM (
      SELECT tableoid, consumer, last_sequence AS missing, 0 AS removed, NULL::timestamptz AS before
      FROM consumers.cursors
      UNION ALL
      SELECT tableoid, consumer, -1, 0, NULL FROM consumers.inbox WHERE sequence IS NOT NULL
      UNION ALL
      SELECT tableoid, consumer, 0, events, reaped_before FROM consumers.inbox_horizons
    ) AS inbox
  ) AS counted
  GROUP BY name
) AS tables
WHERE (name <> 'ledger.outbox' OR NOT EXISTS (SELECT FROM ledger.copied)) AND (
  missing <> removed
  OR (removed = 0) <> (reaped_before = '-infinity')
  OR reaped_before > now() - interval '23 hours'
)

-- --- checks, by npm run generate: of what one consumer did, from its audit/checks.sql
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

-- name: settlement_missing
-- Events that are marked as published and that the settlement feed has neither applied, by its
-- cursor, nor kept early. A key conflict, which has no sequence, adds nothing to a batch.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
LEFT JOIN LATERAL (
  SELECT last_sequence FROM settlement.cursors
  WHERE consumer = 'settlement-feed' AND ordering_key = outbox.payment_id OFFSET 0
) AS cursors ON true
WHERE outbox.state = 'published' AND outbox.published_at >= $1 AND outbox.published_at < $2
  AND outbox.sequence > coalesce(cursors.last_sequence, 0)
  AND NOT EXISTS (
    SELECT FROM settlement.early_events
    WHERE early_events.consumer = 'settlement-feed' AND early_events.event_id = outbox.event_id
    OFFSET 0
  )

-- name: settlement_differs_from_ledger
-- Transactions of days that end in the window which the ledger settled and of which there is no
-- such line, or more than one; and lines that the ledger did not settle so. Left out is what the
-- feed has still to apply; what it applied is a line and in its cursor at once, and what left the
-- outbox by age was applied long before. The clock that settled is a worker's, so it may differ
-- from the database's by some minutes.
WITH unapplied AS MATERIALIZED (
  SELECT outbox.txn_id
  FROM ledger.outbox
  LEFT JOIN LATERAL (
    SELECT last_sequence FROM settlement.cursors
    WHERE consumer = 'settlement-feed' AND ordering_key = outbox.payment_id OFFSET 0
  ) AS cursors ON true
  WHERE outbox.created_at >= date_trunc('day', $1::timestamptz, 'UTC') - interval '1 hour'
    AND outbox.created_at < date_trunc('day', $2::timestamptz, 'UTC') + interval '1 hour'
    AND outbox.sequence > coalesce(cursors.last_sequence, 0)
), settled AS MATERIALIZED (
  SELECT txn_id, settled_at, partner_id, kind, currency,
         CASE kind WHEN 'refund' THEN -amount ELSE amount END AS amount
  FROM ledger.transactions
  WHERE state = 'succeeded' AND kind IN ('payment', 'capture', 'refund')
    AND settled_at >= date_trunc('day', $1::timestamptz, 'UTC')
    AND settled_at < date_trunc('day', $2::timestamptz, 'UTC')
    AND NOT EXISTS (SELECT FROM unapplied WHERE unapplied.txn_id = transactions.txn_id)
), lines AS MATERIALIZED (
  SELECT txn_id, settled_at, partner_id, kind, currency, amount
  FROM partners.settlement_lines
  WHERE settled_at >= date_trunc('day', $1::timestamptz, 'UTC')
    AND settled_at < date_trunc('day', $2::timestamptz, 'UTC')
)
SELECT txn_id::text AS id, min(settled_at) AS since
FROM (
  (TABLE settled EXCEPT ALL TABLE lines)
  UNION ALL
  (TABLE lines EXCEPT ALL TABLE settled)
) AS differing
GROUP BY txn_id

-- name: settlement_differs_from_lines
-- Partner, UTC day and currency of which the settlement batch, or what a statement says of it, is
-- not the sum of its lines, to the minor unit, of days that end in the window; and of lines that
-- were settled in it and are in no batch.
SELECT concat_ws('/', partner_id, day, currency) AS id, day::timestamptz AS since
FROM partners.settlement_batches AS batch
CROSS JOIN LATERAL (
  SELECT coalesce(sum(amount) FILTER (WHERE amount > 0), 0) AS gross,
         coalesce(-sum(amount) FILTER (WHERE amount < 0), 0) AS refunds,
         count(*) FILTER (WHERE amount > 0) AS payments,
         count(*) FILTER (WHERE amount < 0) AS refund_count,
         ARRAY(
           SELECT row(each.kind, each.settled_on, each.count, each.amount)::text
           FROM (
             SELECT kind, (settled_at AT TIME ZONE 'UTC')::date AS settled_on, count(*),
                    sum(amount)::bigint AS amount
             FROM partners.settlement_lines AS line
             WHERE line.partner_id = batch.partner_id AND line.currency = batch.currency
               AND line.day = batch.day
             GROUP BY 1, 2
           ) AS each
           ORDER BY 1
         ) AS said
  FROM partners.settlement_lines AS line
  WHERE line.partner_id = batch.partner_id AND line.currency = batch.currency AND line.day = batch.day
  OFFSET 0
) AS lines
WHERE batch.day >= ($1::timestamptz AT TIME ZONE 'UTC')::date
  AND batch.day < ($2::timestamptz AT TIME ZONE 'UTC')::date
  AND (
    (lines.gross, lines.refunds, lines.payments, lines.refund_count)
      IS DISTINCT FROM (batch.gross, batch.refunds, batch.payments, batch.refund_count)
    OR lines.said <> ARRAY(
      SELECT row(sums.kind, sums.settled_on, sums.count, sums.amount)::text
      FROM partners.settlement_sums AS sums
      WHERE sums.partner_id = batch.partner_id AND sums.day = batch.day
        AND sums.currency = batch.currency
      ORDER BY 1
    )
  )
UNION
SELECT concat_ws('/', partner_id, day, currency), day::timestamptz
FROM (
  SELECT partner_id, day, currency FROM partners.settlement_lines
  WHERE settled_at >= date_trunc('day', $1::timestamptz, 'UTC')
    AND settled_at < date_trunc('day', $2::timestamptz, 'UTC')
  UNION
  SELECT partner_id, day, currency FROM partners.settlement_sums
  WHERE day >= ($1::timestamptz AT TIME ZONE 'UTC')::date
    AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date
) AS added
WHERE NOT EXISTS (
  SELECT FROM partners.settlement_batches AS batch
  WHERE (batch.partner_id, batch.day, batch.currency) = (added.partner_id, added.day, added.currency)
)

-- --- end of checks
