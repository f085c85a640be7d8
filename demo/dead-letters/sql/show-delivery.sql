-- A webhook that was given up, and its attempts.
--
-- $1 event id. A row: one attempt. No row: the webhook was not given up, or never attempted.
SELECT attempt, status, error, took_ms, recorded_at, body
FROM notifier.deliveries
JOIN notifier.delivery_attempts USING (event_id)
WHERE event_id = $1 AND state = 'failed'
ORDER BY attempt
