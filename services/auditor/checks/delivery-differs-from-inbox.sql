-- Applied events without their delivery, and deliveries without an applied event.
SELECT coalesce(inbox.event_id, deliveries.event_id)::text AS id,
       coalesce(inbox.received_at, deliveries.created_at) AS since
FROM (SELECT * FROM notifier.inbox WHERE consumer = 'partner-notifier') AS inbox
FULL JOIN notifier.deliveries ON deliveries.event_id = inbox.event_id
WHERE inbox.event_id IS NULL OR deliveries.event_id IS NULL
ORDER BY since LIMIT 100
