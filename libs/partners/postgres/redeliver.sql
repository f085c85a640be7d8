-- Makes a webhook delivery due now, by the function that the notifier lends for it.
--
-- $1 partner id, $2 event id.
-- A row: the delivery as it is now. No row: the partner has no such delivery.
SELECT event_id, type, txn_id, state, attempts, last_status, last_error, created_at,
       CASE WHEN state = 'delivered' THEN finished_at END AS delivered_at,
       CASE WHEN state = 'pending' THEN next_attempt_at END AS next_attempt_at
FROM notifier.redeliver($1, $2)
