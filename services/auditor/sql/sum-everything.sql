-- Number and sum of transactions per partner and currency, as each layer has them, in minor units.
--
-- A row: one partner and currency; a layer that has nothing of it shows 0. Requests that lost
-- their key or were dead-lettered are no transaction anywhere and are left out. Deliveries that left
-- by age are in the sums that they left behind.
WITH seen AS (
  SELECT 'accepted' AS layer, partner_id, currency, count(*) AS payments, sum(amount) AS amount
  FROM auditor.accepted
  WHERE NOT EXISTS (SELECT FROM ledger.transactions
                    WHERE transactions.txn_id = accepted.txn_id
                      AND transactions.fingerprint <> accepted.fingerprint)
    AND NOT EXISTS (SELECT FROM auditor.dead_letters
                    WHERE dead_letters.txn_id = accepted.txn_id
                      AND dead_letters.fingerprint = accepted.fingerprint
                      AND NOT EXISTS (SELECT FROM ledger.transactions
                                      WHERE transactions.txn_id = accepted.txn_id))
  GROUP BY partner_id, currency
  UNION ALL
  SELECT 'ledger', partner_id, currency, count(*), sum(amount)
  FROM ledger.transactions
  GROUP BY partner_id, currency
  UNION ALL
  SELECT 'published', partner_id, currency, count(*), sum(amount)
  FROM auditor.published
  WHERE event_type <> 'payment.key_conflict'
  GROUP BY partner_id, currency
  UNION ALL
  SELECT 'delivered', partner_id, body::json #>> '{data,currency}', count(*),
         sum((body::json #>> '{data,amount}')::bigint)
  FROM notifier.deliveries
  WHERE state = 'delivered' AND body::json ->> 'type' <> 'payment.key_conflict'
  GROUP BY partner_id, body::json #>> '{data,currency}'
  UNION ALL
  SELECT 'delivered', partner_id, currency, sum(deliveries)::bigint, sum(amount)
  FROM notifier.reaped_deliveries
  WHERE event_type <> 'payment.key_conflict'
  GROUP BY partner_id, currency
)
SELECT partner_id AS partner, currency,
       coalesce(sum(payments) FILTER (WHERE layer = 'accepted'), 0)::bigint AS "acceptedCount",
       coalesce(sum(payments) FILTER (WHERE layer = 'ledger'), 0)::bigint AS "ledgerCount",
       coalesce(sum(payments) FILTER (WHERE layer = 'published'), 0)::bigint AS "publishedCount",
       coalesce(sum(payments) FILTER (WHERE layer = 'delivered'), 0)::bigint AS "deliveredCount",
       coalesce(sum(amount) FILTER (WHERE layer = 'accepted'), 0)::text AS accepted,
       coalesce(sum(amount) FILTER (WHERE layer = 'ledger'), 0)::text AS ledger,
       coalesce(sum(amount) FILTER (WHERE layer = 'published'), 0)::text AS published,
       coalesce(sum(amount) FILTER (WHERE layer = 'delivered'), 0)::text AS delivered
FROM seen
GROUP BY partner_id, currency
ORDER BY partner_id, currency
