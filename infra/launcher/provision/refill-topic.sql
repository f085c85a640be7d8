-- Lets events that Pub/Sub had and not every consumer received wait for a dispatcher again.
--
-- No parameters. A row: such an event. No row: nothing is lacking.
--
-- For an emulator that was just started and so has forgotten what it held. An event that is set
-- back although it would have come is published once more, and the inboxes know it; a mark that
-- comes later is of an owner that published it, which is as good.
UPDATE ledger.outbox AS event
SET state = 'pending', published_at = NULL, published_epoch = NULL
WHERE state = 'published' AND (
  NOT EXISTS (SELECT FROM auditor.published WHERE published.event_id = event.event_id)
  -- --- inboxes, by npm run generate
  OR NOT EXISTS (SELECT FROM notifier.inbox WHERE inbox.event_id = event.event_id)
  OR NOT EXISTS (SELECT FROM settlement.inbox WHERE inbox.event_id = event.event_id)
  -- --- end of inboxes
)
RETURNING event_id
