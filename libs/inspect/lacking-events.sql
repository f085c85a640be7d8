-- Published events that some consumer has not received, as they are to wait for a dispatcher again.
--
-- $1 whether they do so now, or are only counted. Always one row: how many there are.
--
-- For what the broker forgot, or the consumers did. An event that is set back although it would
-- have come is published once more, and the inboxes know it; a mark that comes later is of an owner
-- that published it, which is as good.
WITH lacking AS MATERIALIZED (
  SELECT event_id FROM ledger.outbox AS event
  WHERE state = 'published' AND (
    NOT EXISTS (SELECT FROM auditor.published WHERE published.event_id = event.event_id)
    -- --- inboxes, by npm run generate
    OR NOT EXISTS (SELECT FROM notifier.inbox WHERE inbox.event_id = event.event_id)
    OR NOT EXISTS (SELECT FROM settlement.inbox WHERE inbox.event_id = event.event_id)
    -- --- end of inboxes
  )
), waiting AS (
  UPDATE ledger.outbox SET state = 'pending', published_at = NULL, published_epoch = NULL
  FROM lacking
  WHERE outbox.event_id = lacking.event_id AND outbox.state = 'published' AND $1::boolean
)
SELECT count(*)::integer AS events FROM lacking
