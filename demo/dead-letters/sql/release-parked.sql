-- Lets a parked event wait for a dispatcher again, with every parked event of its payment, so that
-- their order holds.
--
-- $1 event id. A row: an event that waits again. No row: the event is not parked.
UPDATE ledger.outbox AS event SET state = 'pending', parked_reason = NULL
FROM ledger.outbox AS parked
WHERE parked.event_id = $1 AND parked.state = 'parked'
  AND event.payment_id = parked.payment_id AND event.state = 'parked'
RETURNING event.event_id
