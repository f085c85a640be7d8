-- What the settlement feed did about events against what was published and settled; assembled with
-- the auditor's own checks (services/auditor/checks/consumers.sql says what a row is).

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
-- Partner, UTC day and currency of which the settlement batch is not what the ledger settled, to
-- the minor unit, of days that end in the window. Left out is what the feed has still to apply;
-- what it applied is in batch and cursor at once, and what left the outbox by age was applied long
-- before. The clock that settled is a worker's, so it may differ from the database's by some
-- minutes.
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
), settled AS (
  SELECT partner_id, (settled_at AT TIME ZONE 'UTC')::date AS day, currency,
         coalesce(sum(amount) FILTER (WHERE kind IN ('payment', 'capture')), 0) AS gross,
         coalesce(sum(amount) FILTER (WHERE kind = 'refund'), 0) AS refunds,
         count(*) FILTER (WHERE kind IN ('payment', 'capture')) AS payments,
         count(*) FILTER (WHERE kind = 'refund') AS refund_count,
         min(settled_at) AS since
  FROM ledger.transactions
  WHERE state = 'succeeded' AND kind IN ('payment', 'capture', 'refund')
    AND settled_at >= date_trunc('day', $1::timestamptz, 'UTC')
    AND settled_at < date_trunc('day', $2::timestamptz, 'UTC')
    AND NOT EXISTS (SELECT FROM unapplied WHERE unapplied.txn_id = transactions.txn_id)
  GROUP BY 1, 2, 3
), batches AS (
  SELECT * FROM partners.settlement_batches
  WHERE day >= ($1::timestamptz AT TIME ZONE 'UTC')::date
    AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date
)
SELECT concat_ws('/', partner_id, day, currency) AS id,
       coalesce(settled.since, day::timestamptz) AS since
FROM settled
FULL JOIN batches USING (partner_id, day, currency)
WHERE (settled.gross, settled.refunds, settled.payments, settled.refund_count)
  IS DISTINCT FROM
  (batches.gross, batches.refunds, batches.payments, batches.refund_count)
