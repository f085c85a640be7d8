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
