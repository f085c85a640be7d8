-- Duplicates that a missing guard let through.

-- name: postedAgain
-- Payments that the ledger has more than once. No parameters.
--
-- A row: the id, how often it is there, what was booked in all and what the first row is about.
SELECT txn_id AS id, count(*)::int AS rows, currency,
       (array_agg(amount ORDER BY settled_at))[1] AS amount,
       (SELECT sum(amount)::bigint FROM ledger.entries
        WHERE entries.txn_id = transactions.txn_id) AS booked
FROM ledger.transactions
GROUP BY txn_id, currency
HAVING count(*) > 1
ORDER BY txn_id

-- name: deliveredAgain
-- Events of which the notifier made more than one delivery. No parameters.
--
-- A row: the webhook-id, the payment, how many deliveries there are and what the event says.
SELECT event_id AS "webhookId", txn_id AS id, count(*)::int AS deliveries,
       min(body::json -> 'data' ->> 'amount')::bigint AS amount,
       min(body::json -> 'data' ->> 'currency') AS currency
FROM (
  SELECT event_id, txn_id, body FROM notifier.deliveries
  UNION ALL
  SELECT event_id, txn_id, body FROM notifier.earlier_deliveries
) AS made
GROUP BY event_id, txn_id
HAVING count(*) > 1
ORDER BY txn_id
