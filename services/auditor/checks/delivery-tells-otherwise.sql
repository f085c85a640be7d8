-- Deliveries to another partner than the event's, or that tell another thing than the event.
SELECT deliveries.event_id::text AS id, deliveries.created_at AS since
FROM notifier.deliveries
JOIN ledger.outbox USING (event_id)
CROSS JOIN LATERAL (SELECT outbox.payload::json AS event, deliveries.body::json AS body) AS told
WHERE deliveries.partner_id <> outbox.partner_id
  OR (told.body ->> 'type', told.body ->> 'sequence', told.body ->> 'data')
    IS DISTINCT FROM (told.event ->> 'type', told.event ->> 'sequence', told.event ->> 'data')
ORDER BY since LIMIT 100
