-- What was set aside in the database: parked events and webhooks that were given up. Dead letters
-- of Kafka are in a topic.

-- name: list
-- Events that can never be published and webhooks that were given up, oldest first.
--
-- A row: one dead letter. Events that only wait behind a parked one of their payment are not
-- listed: they leave together with it.
SELECT 'outbox:' || event_id AS id, created_at AS at, partner_id AS partner, txn_id AS about,
       parked_reason AS reason
FROM ledger.outbox
WHERE state = 'parked' AND parked_reason NOT LIKE 'behind %'
UNION ALL
SELECT 'webhook:' || event_id, finished_at, partner_id, txn_id,
       concat_ws(', ', 'given up after ' || attempts || ' attempts', 'HTTP ' || last_status, last_error)
FROM notifier.deliveries
WHERE state = 'failed'
ORDER BY at, id

-- name: showEvent
-- A parked event and those of its payment that wait behind it, in order.
--
-- $1 event id. A row: an event. No row: the event is not parked.
SELECT event.event_id, event.event_type, event.sequence, event.parked_reason, event.payload
FROM ledger.outbox AS parked
JOIN ledger.outbox AS event USING (payment_id)
WHERE parked.event_id = $1 AND parked.state = 'parked' AND event.state = 'parked'
ORDER BY event.order_id

-- name: showDelivery
-- A webhook that was given up, and its attempts.
--
-- $1 event id. A row: one attempt. No row: the webhook was not given up, or never attempted.
SELECT attempt, status, error, took_ms, recorded_at, body
FROM notifier.deliveries
JOIN notifier.delivery_attempts USING (event_id)
WHERE event_id = $1 AND state = 'failed'
ORDER BY attempt

-- name: releaseParked
-- Has a parked event wait for a dispatcher again, with every parked event of its payment, so that
-- their order holds.
--
-- $1 event id. A row: an event that waits again. No row: the event is not parked.
UPDATE ledger.outbox AS event SET state = 'pending', parked_reason = NULL
FROM ledger.outbox AS parked
WHERE parked.event_id = $1 AND parked.state = 'parked'
  AND event.payment_id = parked.payment_id AND event.state = 'parked'
RETURNING event.event_id

-- name: renewDelivery
-- Makes a webhook that was given up due at once, with all the time for retries again.
--
-- $1 event id. A row: it is due. No row: it was not given up. Attempts go on counting, because
-- their number is what keeps an overtaken sender from recording.
UPDATE notifier.deliveries
SET state = 'pending', finished_at = NULL, first_attempt_at = NULL, next_attempt_at = now()
WHERE event_id = $1 AND state = 'failed'
RETURNING event_id
