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
-- Partner, UTC day and currency of which the settlement batch is not the sum of its lines, to the
-- minor unit, of days that end in the window; and of lines that were settled in it and are in no
-- batch.
WITH batches AS MATERIALIZED (
  SELECT * FROM partners.settlement_batches
  WHERE day >= ($1::timestamptz AT TIME ZONE 'UTC')::date
    AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date
), added AS (
  SELECT days.partner_id, days.day, lines.*
  FROM (SELECT DISTINCT partner_id, day FROM batches) AS days
  CROSS JOIN LATERAL (
    SELECT currency,
           coalesce(sum(amount) FILTER (WHERE amount > 0), 0) AS gross,
           coalesce(-sum(amount) FILTER (WHERE amount < 0), 0) AS refunds,
           count(*) FILTER (WHERE amount > 0) AS payments,
           count(*) FILTER (WHERE amount < 0) AS refund_count
    FROM partners.settlement_lines AS line
    WHERE line.partner_id = days.partner_id AND line.day = days.day
    GROUP BY currency
    OFFSET 0
  ) AS lines
)
SELECT concat_ws('/', partner_id, day, currency) AS id, day::timestamptz AS since
FROM added
FULL JOIN batches USING (partner_id, day, currency)
WHERE (added.gross, added.refunds, added.payments, added.refund_count)
  IS DISTINCT FROM
  (batches.gross, batches.refunds, batches.payments, batches.refund_count)
UNION
SELECT concat_ws('/', partner_id, day, currency), day::timestamptz
FROM (
  SELECT DISTINCT partner_id, day, currency FROM partners.settlement_lines
  WHERE settled_at >= date_trunc('day', $1::timestamptz, 'UTC')
    AND settled_at < date_trunc('day', $2::timestamptz, 'UTC')
) AS lines
WHERE NOT EXISTS (
  SELECT FROM partners.settlement_batches AS batch
  WHERE (batch.partner_id, batch.day, batch.currency) = (lines.partner_id, lines.day, lines.currency)
)
