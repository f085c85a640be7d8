-- What there is in a system of its own, and duplicates that a missing guard let through.

-- name: survey
-- What there is of everything in a system of its own. Always one row.
--
-- No parameters. `waiting` is what is still on its way behind the ledger.
SELECT
  (SELECT count(*) FROM ledger.transactions)::int AS rows,
  (SELECT count(*) FROM ledger.entries)::int AS entries,
  (SELECT count(*) FROM ledger.outbox WHERE event_type = 'payment.key_conflict')::int AS conflicts,
  (SELECT count(*) FROM ledger.outbox)::int AS events,
  (SELECT coalesce(sum(copies), 0) FROM auditor.published)::int AS copies,
  (SELECT count(*) FROM notifier.inbox)::int AS "inboxRows",
  (SELECT count(*) FROM webhooks.deliveries)::int
  + (SELECT count(*) FROM notifier.earlier_deliveries)::int AS deliveries,
  (SELECT count(*) FROM ledger.outbox WHERE state = 'pending')::int
  + (SELECT count(DISTINCT event_id) FROM ledger.outbox
     WHERE event_id NOT IN (SELECT event_id FROM auditor.published)
        OR event_id NOT IN (SELECT event_id FROM notifier.inbox))::int
  + (SELECT count(*) FROM webhooks.deliveries WHERE state = 'pending')::int AS waiting

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
-- Events of which the notifier made more than one delivery to an endpoint. No parameters.
--
-- A row: the webhook-id, the payment, how many deliveries there are and what the event says.
SELECT event_id AS "webhookId", txn_id AS id, count(*)::int AS deliveries,
       min(body::json -> 'data' ->> 'amount')::bigint AS amount,
       min(body::json -> 'data' ->> 'currency') AS currency
FROM (
  SELECT event_id, ordinal, txn_id, body FROM webhooks.deliveries
  UNION ALL
  SELECT event_id, ordinal, txn_id, body FROM notifier.earlier_deliveries
) AS made
GROUP BY event_id, ordinal, txn_id
HAVING count(*) > 1
ORDER BY txn_id
