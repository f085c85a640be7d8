-- Webhooks that are still to be delivered. One that is sent once more waits since it was asked for.
SELECT event_id::text AS id, coalesce(first_attempt_at, next_attempt_at) AS since
FROM notifier.deliveries
WHERE state = 'pending'
  AND NOT EXISTS (
    SELECT FROM auditor.unwanted_deliveries WHERE unwanted_deliveries.event_id = deliveries.event_id
  )
