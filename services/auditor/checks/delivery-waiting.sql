-- Webhooks that are still to be delivered.
SELECT event_id::text AS id, created_at AS since
FROM notifier.deliveries
WHERE state = 'pending'
