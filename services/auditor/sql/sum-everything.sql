-- Number and sum of transactions per partner and currency, as each layer has them, in minor units.
--
-- A row: one partner and currency; a layer that has nothing of it shows 0. Requests that lost
-- their key or were dead-lettered are no transaction anywhere and are left out.
WITH seen AS (
  SELECT 'accepted' AS layer, partner_id, currency, amount
  FROM auditor.accepted
  WHERE NOT EXISTS (SELECT FROM ledger.transactions
                    WHERE transactions.txn_id = accepted.txn_id
                      AND transactions.fingerprint <> accepted.fingerprint)
    AND NOT EXISTS (SELECT FROM auditor.dead_letters
                    WHERE dead_letters.txn_id = accepted.txn_id
                      AND dead_letters.fingerprint = accepted.fingerprint
                      AND NOT EXISTS (SELECT FROM ledger.transactions
                                      WHERE transactions.txn_id = accepted.txn_id))
  UNION ALL
  SELECT 'ledger', partner_id, currency, amount FROM ledger.transactions
  UNION ALL
  SELECT 'published', partner_id, currency, amount
  FROM auditor.published
  WHERE event_type <> 'payment.key_conflict'
  UNION ALL
  SELECT 'delivered', partner_id, told.currency, told.amount
  FROM notifier.deliveries
  CROSS JOIN LATERAL json_to_record(body::json) AS webhook (type text, data json)
  CROSS JOIN LATERAL json_to_record(webhook.data) AS told (currency text, amount bigint)
  WHERE state = 'delivered' AND webhook.type <> 'payment.key_conflict'
)
SELECT partner_id AS partner, currency,
       count(*) FILTER (WHERE layer = 'accepted') AS "acceptedCount",
       count(*) FILTER (WHERE layer = 'ledger') AS "ledgerCount",
       count(*) FILTER (WHERE layer = 'published') AS "publishedCount",
       count(*) FILTER (WHERE layer = 'delivered') AS "deliveredCount",
       coalesce(sum(amount) FILTER (WHERE layer = 'accepted'), 0)::text AS accepted,
       coalesce(sum(amount) FILTER (WHERE layer = 'ledger'), 0)::text AS ledger,
       coalesce(sum(amount) FILTER (WHERE layer = 'published'), 0)::text AS published,
       coalesce(sum(amount) FILTER (WHERE layer = 'delivered'), 0)::text AS delivered
FROM seen
GROUP BY partner_id, currency
ORDER BY partner_id, currency
