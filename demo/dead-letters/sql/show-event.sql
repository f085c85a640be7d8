-- A parked event and those of its payment that wait behind it, in order.
--
-- $1 event id. A row: an event. No row: the event is not parked.
SELECT event.event_id, event.event_type, event.sequence, event.parked_reason, event.payload
FROM ledger.outbox AS parked
JOIN ledger.outbox AS event USING (payment_id)
WHERE parked.event_id = $1 AND parked.state = 'parked' AND event.state = 'parked'
ORDER BY event.order_id
