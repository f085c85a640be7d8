-- Events that are marked as published and that the auditor has not received.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
WHERE outbox.state = 'published'
  AND NOT EXISTS (SELECT FROM auditor.published WHERE published.event_id = outbox.event_id)
