-- Applied events without their delivery, and deliveries without an applied event, but for those of
-- which one of the two left by age.
SELECT coalesce(inbox.event_id, deliveries.event_id)::text AS id,
       coalesce(inbox.received_at, deliveries.created_at) AS since
FROM (SELECT * FROM notifier.inbox WHERE consumer = 'partner-notifier') AS inbox
FULL JOIN notifier.deliveries ON deliveries.event_id = inbox.event_id
WHERE deliveries.event_id IS NULL
    AND inbox.received_at >= (SELECT reaped_before FROM notifier.deliveries_horizon)
  OR inbox.event_id IS NULL
    AND deliveries.created_at >= coalesce(
      (SELECT reaped_before FROM notifier.inbox_horizons WHERE consumer = 'partner-notifier'),
      '-infinity'
    )
