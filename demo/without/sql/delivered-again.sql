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
