-- What an audit adds up, beside its checks.

-- name: sumEverything
-- Number and sum of what each layer has per partner and currency, in minor units.
--
-- A row: one figure of one layer. `payments` are all of them, whatever became of them; requests
-- that lost their key or were dead-lettered are no transaction anywhere and are left out. `gross`
-- are the payments that succeeded and `refunds` what of them was given back; `charged` and
-- `givenBack` are those of cards. Deliveries that left by age are in the sums that they left
-- behind, and `delivered` is also what its partner does not want, which nobody will deliver.
WITH booked AS MATERIALIZED (
  SELECT transactions.partner_id, transactions.currency, transactions.kind, transactions.state,
         coalesce(transactions.payment_method, payments.payment_method) IS NOT NULL AS by_card,
         count(*) AS number, sum(transactions.amount) AS amount
  FROM ledger.transactions
  LEFT JOIN ledger.transactions AS payments ON payments.txn_id = transactions.payment_id
  WHERE transactions.currency IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
), delivered AS MATERIALIZED (
  SELECT partner_id, sent ->> 'type' AS event_type, sent #>> '{data,currency}' AS currency,
         count(*) AS number, sum((sent #>> '{data,amount}')::bigint) AS amount
  FROM (
    SELECT partner_id, body FROM notifier.deliveries WHERE state = 'delivered'
    UNION ALL
    SELECT partner_id, body FROM auditor.unwanted_deliveries
  ) AS done, LATERAL (SELECT body::json AS sent) AS webhook
  GROUP BY partner_id, sent ->> 'type', sent #>> '{data,currency}'
  UNION ALL
  SELECT partner_id, event_type, currency, deliveries, amount FROM notifier.reaped_deliveries
), notified AS MATERIALIZED (
  SELECT 'published' AS layer, partner_id, event_type, currency, count(*) AS number, sum(amount) AS amount
  FROM auditor.published
  WHERE currency IS NOT NULL
  GROUP BY partner_id, event_type, currency
  UNION ALL
  SELECT 'delivered', partner_id, event_type, currency, number, amount FROM delivered
  WHERE currency <> ''
), seen AS (
  SELECT 'payments' AS figure, 'accepted' AS layer, partner_id, currency, count(*) AS number,
         sum(amount) AS amount
  FROM auditor.accepted
  WHERE kind = 'payment'
    AND NOT EXISTS (SELECT FROM ledger.transactions
                    WHERE transactions.txn_id = accepted.txn_id
                      AND transactions.fingerprint <> accepted.fingerprint)
    AND NOT EXISTS (SELECT FROM auditor.dead_letters
                    WHERE dead_letters.txn_id = accepted.txn_id
                      AND dead_letters.fingerprint = accepted.fingerprint
                      AND NOT EXISTS (SELECT FROM ledger.transactions
                                      WHERE transactions.txn_id = accepted.txn_id))
  GROUP BY partner_id, currency
  UNION ALL
  SELECT 'payments', 'ledger', partner_id, currency, number, amount FROM booked
  WHERE kind = 'payment'
  UNION ALL
  SELECT CASE kind WHEN 'refund' THEN 'refunds' ELSE 'gross' END, 'ledger',
         partner_id, currency, number, amount
  FROM booked
  WHERE state = 'succeeded' AND kind IN ('payment', 'refund')
  UNION ALL
  SELECT CASE kind WHEN 'refund' THEN 'givenBack' ELSE 'charged' END, 'ledger',
         partner_id, currency, number, amount
  FROM booked
  WHERE state = 'succeeded' AND by_card
  UNION ALL
  SELECT CASE kind WHEN 'refund' THEN 'givenBack' ELSE 'charged' END, 'provider',
         partner_id, currency, count(*), sum(amount)
  FROM auditor.provider_journal
  WHERE kind IN ('charge', 'refund') AND status = 'succeeded' AND partner_id IS NOT NULL
  GROUP BY kind, partner_id, currency
  UNION ALL
  SELECT 'payments', layer, partner_id, currency, number, amount FROM notified
  WHERE event_type IN ('payment.succeeded', 'payment.failed')
  UNION ALL
  SELECT CASE event_type WHEN 'refund.succeeded' THEN 'refunds' ELSE 'gross' END, layer,
         partner_id, currency, number, amount
  FROM notified
  WHERE event_type IN ('payment.succeeded', 'refund.succeeded')
)
SELECT partner_id AS partner, currency, figure, layer, sum(number)::text AS count, sum(amount)::text AS amount
FROM seen
GROUP BY partner_id, currency, figure, layer
ORDER BY partner_id, currency

-- name: countEverything
-- How much there is of everything. Always one row.
--
-- `accepted` is every distinct request in the topic, readable or not, so that it equals ledger
-- rows, dead letters and key conflicts together. A dead letter that lost its key is a key conflict,
-- and one that was posted later is a ledger row: neither is counted as a dead letter. What left by
-- age is still counted. `charges` are the provider's, that succeeded. `unwanted` are
-- deliveries to an endpoint whose server answered 410 Gone, until its partner sets it again.
SELECT
  (SELECT count(*) FROM auditor.accepted) + (SELECT count(*) FROM auditor.accepted_refused)
    AS accepted,
  (SELECT count(*) FROM ledger.transactions) AS ledger,
  (SELECT count(*) FROM auditor.dead_letters WHERE txn_id IS NULL)
    + (SELECT count(DISTINCT (txn_id, fingerprint)) FROM auditor.dead_letters
       WHERE txn_id IS NOT NULL
         AND NOT EXISTS (SELECT FROM ledger.transactions
                         WHERE transactions.txn_id = dead_letters.txn_id)) AS "deadLettered",
  (SELECT count(*) FROM ledger.outbox WHERE event_type = 'payment.key_conflict') AS "keyConflicts",
  (SELECT count(*) FROM auditor.charges WHERE status = 'succeeded') AS charges,
  (SELECT count(*) FROM ledger.outbox) + (SELECT events FROM ledger.outbox_horizon) AS events,
  (SELECT count(*) FROM auditor.published) AS published,
  (SELECT count(*) FROM notifier.inbox WHERE consumer = 'partner-notifier')
    + coalesce((SELECT events FROM notifier.inbox_horizons WHERE consumer = 'partner-notifier'), 0)
    AS inbox,
  (SELECT count(*) FROM notifier.deliveries WHERE state = 'delivered')
    + (SELECT coalesce(sum(deliveries), 0)::bigint FROM notifier.reaped_deliveries) AS deliveries,
  (SELECT count(*) FROM auditor.unwanted_deliveries) AS unwanted
