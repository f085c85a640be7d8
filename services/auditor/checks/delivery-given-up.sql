-- Webhooks that were given up: a partner has not been told.
SELECT event_id::text AS id, finished_at AS since
FROM notifier.deliveries
WHERE state = 'failed'
