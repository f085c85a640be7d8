-- Events that are marked as published and that the settlement feed has not applied, by its cursor.
-- A key conflict, which has no sequence, adds nothing to a batch.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
LEFT JOIN settlement.cursors
  ON cursors.consumer = 'settlement-feed' AND cursors.ordering_key = outbox.payment_id
WHERE outbox.state = 'published' AND outbox.sequence > coalesce(cursors.last_sequence, 0)
