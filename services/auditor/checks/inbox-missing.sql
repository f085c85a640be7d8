-- Events that are marked as published and that the notifier has not applied. Of one that left the
-- inbox by age the cursor says that it was applied.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
WHERE outbox.state = 'published'
  AND NOT EXISTS (
    SELECT FROM notifier.inbox
    WHERE inbox.consumer = 'partner-notifier' AND inbox.event_id = outbox.event_id
  )
  AND NOT EXISTS (
    SELECT FROM notifier.inbox_horizons
    JOIN notifier.cursors USING (consumer)
    WHERE consumer = 'partner-notifier'
      AND outbox.created_at < inbox_horizons.reaped_before
      AND cursors.ordering_key = outbox.payment_id
      AND cursors.last_sequence >= outbox.sequence
  )
