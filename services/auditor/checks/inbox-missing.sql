-- Events that are marked as published and that the notifier has not applied.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
WHERE outbox.state = 'published'
  AND NOT EXISTS (
    SELECT FROM notifier.inbox
    WHERE inbox.consumer = 'partner-notifier' AND inbox.event_id = outbox.event_id
  )
ORDER BY since LIMIT 100
