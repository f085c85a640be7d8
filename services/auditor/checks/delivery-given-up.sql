-- Webhooks that were given up: a partner that wants them did not get them.
SELECT event_id::text AS id, finished_at AS since
FROM notifier.deliveries
WHERE state = 'failed'
  AND NOT EXISTS (
    SELECT FROM auditor.unwanted_deliveries WHERE unwanted_deliveries.event_id = deliveries.event_id
  )
