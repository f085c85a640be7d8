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
