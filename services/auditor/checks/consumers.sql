-- What consumers did about events against what was published.
--
-- Each statement takes no parameters. A row: an offending `id`, and `since` when it has been one.
-- No row: the check holds. checks.ts says when it must.

-- name: inbox_missing
-- Events that are marked as published and that the notifier has not applied. Of one that left the
-- inbox by age the cursor says that it was applied.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
WHERE outbox.state = 'published'
  AND NOT EXISTS (
    SELECT FROM notifier.inbox
    WHERE inbox.consumer = 'partner-notifier' AND inbox.event_id = outbox.event_id
  )
  AND NOT EXISTS (
    SELECT FROM notifier.inbox_horizons
    JOIN notifier.cursors USING (consumer)
    WHERE consumer = 'partner-notifier'
      AND outbox.created_at < inbox_horizons.reaped_before
      AND cursors.ordering_key = outbox.payment_id
      AND cursors.last_sequence >= outbox.sequence
  )

-- name: settlement_missing
-- Events that are marked as published and that the settlement feed has not applied, by its cursor.
-- A key conflict, which has no sequence, adds nothing to a batch.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
LEFT JOIN settlement.cursors
  ON cursors.consumer = 'settlement-feed' AND cursors.ordering_key = outbox.payment_id
WHERE outbox.state = 'published' AND outbox.sequence > coalesce(cursors.last_sequence, 0)

-- name: delivery_waiting
-- Webhooks that are still to be delivered. One that is sent once more waits since it was asked for.
SELECT event_id::text AS id, coalesce(first_attempt_at, next_attempt_at) AS since
FROM notifier.deliveries
WHERE state = 'pending'
  AND NOT EXISTS (
    SELECT FROM auditor.unwanted_deliveries WHERE unwanted_deliveries.event_id = deliveries.event_id
  )

-- name: inbox_unfounded
-- Events that a consumer applied and that are not in the outbox, or with other bytes than the
-- auditor received. One that left the outbox by age was seen by the auditor.
SELECT event_id::text AS id, min(inbox.received_at) AS since
FROM (
  SELECT event_id, payload_hash, received_at FROM notifier.inbox
  UNION ALL
  SELECT event_id, payload_hash, received_at FROM settlement.inbox
) AS inbox
LEFT JOIN ledger.outbox USING (event_id)
LEFT JOIN auditor.published USING (event_id)
WHERE inbox.payload_hash <> published.payload_hash
  OR outbox.event_id IS NULL
    AND NOT auditor.left_outbox(published.txn_id, published.event_type, event_id)
GROUP BY event_id

-- name: inbox_altered
-- Events of which a consumer received copies with other bytes.
SELECT event_id::text AS id, min(first_seen) AS since
FROM (
  SELECT event_id, first_seen FROM notifier.altered_copies
  UNION ALL
  SELECT event_id, first_seen FROM settlement.altered_copies
) AS altered
GROUP BY event_id

-- name: cursor_differs_from_inbox
-- Payments whose cursor is not where the newest applied event is, or that skipped one. A payment
-- older than what left the inbox by age may miss its first events there; the request's clock is a
-- gateway's and may differ from the database's by some minutes.
SELECT applied.ordering_key::text AS id, applied.since
FROM (
  SELECT consumer, ordering_key, max(sequence) AS newest, min(sequence) AS oldest,
         count(*) AS events, min(received_at) AS since
  FROM notifier.inbox
  WHERE sequence IS NOT NULL
  GROUP BY consumer, ordering_key
) AS applied
LEFT JOIN notifier.cursors USING (consumer, ordering_key)
WHERE cursors.last_sequence IS DISTINCT FROM applied.newest
  OR applied.events <> applied.newest - applied.oldest + 1
  OR applied.oldest > 1 AND NOT EXISTS (
    SELECT FROM notifier.inbox_horizons, ledger.transactions
    WHERE inbox_horizons.consumer = applied.consumer
      AND transactions.txn_id = applied.ordering_key
      AND transactions.created_at < inbox_horizons.reaped_before + interval '1 hour'
  )

-- name: delivery_differs_from_inbox
-- Applied events without their delivery, and deliveries without an applied event, but for those of
-- which one of the two left by age.
SELECT coalesce(inbox.event_id, deliveries.event_id)::text AS id,
       coalesce(inbox.received_at, deliveries.created_at) AS since
FROM (SELECT * FROM notifier.inbox WHERE consumer = 'partner-notifier') AS inbox
FULL JOIN notifier.deliveries ON deliveries.event_id = inbox.event_id
WHERE deliveries.event_id IS NULL
    AND inbox.received_at >= (SELECT reaped_before FROM notifier.deliveries_horizon)
  OR inbox.event_id IS NULL
    AND deliveries.created_at >= coalesce(
      (SELECT reaped_before FROM notifier.inbox_horizons WHERE consumer = 'partner-notifier'),
      '-infinity'
    )

-- name: delivery_tells_otherwise
-- Deliveries to another partner than the event's, or with another content than the event.
--
-- An event ends with what its webhook says, so nearly always its last bytes show that they agree;
-- only where they do not are both read.
SELECT deliveries.event_id::text AS id, deliveries.created_at AS since
FROM notifier.deliveries
JOIN ledger.outbox USING (event_id)
WHERE deliveries.partner_id <> outbox.partner_id
  OR CASE
    WHEN substr(convert_to(deliveries.body, 'UTF8'), 2) = substr(
      convert_to(outbox.payload, 'UTF8'),
      octet_length(outbox.payload) - octet_length(deliveries.body) + 2
    )
    THEN false
    ELSE (
      deliveries.body::json ->> 'type',
      deliveries.body::json ->> 'sequence',
      deliveries.body::json ->> 'data'
    ) IS DISTINCT FROM (
      outbox.payload::json ->> 'type',
      outbox.payload::json ->> 'sequence',
      outbox.payload::json ->> 'data'
    )
  END

-- name: delivery_given_up
-- Webhooks that were given up: a partner that wants them did not get them.
SELECT event_id::text AS id, finished_at AS since
FROM notifier.deliveries
WHERE state = 'failed'
  AND NOT EXISTS (
    SELECT FROM auditor.unwanted_deliveries WHERE unwanted_deliveries.event_id = deliveries.event_id
  )

-- name: settlement_differs_from_ledger
-- Partner, UTC day and currency of which the settlement batch is not what the ledger settled, to
-- the minor unit. Left out is what the feed has still to apply; what it applied is in batch and
-- cursor at once, and what left the outbox by age was applied long before.
WITH unapplied AS MATERIALIZED (
  SELECT outbox.txn_id
  FROM ledger.outbox
  LEFT JOIN settlement.cursors
    ON cursors.consumer = 'settlement-feed' AND cursors.ordering_key = outbox.payment_id
  WHERE outbox.sequence > coalesce(cursors.last_sequence, 0)
), settled AS (
  SELECT partner_id, (settled_at AT TIME ZONE 'UTC')::date AS day, currency,
         coalesce(sum(amount) FILTER (WHERE kind = 'payment'), 0) AS gross,
         coalesce(sum(amount) FILTER (WHERE kind = 'refund'), 0) AS refunds,
         count(*) FILTER (WHERE kind = 'payment') AS payments,
         count(*) FILTER (WHERE kind = 'refund') AS refund_count,
         min(settled_at) AS since
  FROM ledger.transactions
  WHERE state = 'succeeded'
    AND NOT EXISTS (SELECT FROM unapplied WHERE unapplied.txn_id = transactions.txn_id)
  GROUP BY 1, 2, 3
)
SELECT concat_ws('/', partner_id, day, currency) AS id,
       coalesce(settled.since, day::timestamptz) AS since
FROM settled
FULL JOIN settlement.batches USING (partner_id, day, currency)
WHERE (settled.gross, settled.refunds, settled.payments, settled.refund_count)
  IS DISTINCT FROM
  (batches.gross, batches.refunds, batches.payments, batches.refund_count)
