-- What was set aside in the database: parked events, webhooks that were given up, transactions that
-- come to no end, and messages that consumers refused. Dead letters of Kafka are in a topic.

-- name: list
-- Events that can never be published, webhooks that were given up, and transactions that have been
-- pending for an hour, for 25 where a customer or a bank may be at work, or for eight days where a
-- partner holds the money, which the provider does for seven; oldest first.
--
-- A row: one dead letter. Events that only wait behind a parked one of their payment are not
-- listed: they leave together with it.
SELECT 'outbox:' || event_id AS id, created_at AS at, partner_id AS partner, txn_id AS about,
       parked_reason AS reason
FROM ledger.outbox
WHERE state = 'parked' AND parked_reason NOT LIKE 'behind %'
UNION ALL
SELECT 'webhook:' || webhooks.delivery_name(event_id, ordinal), finished_at, partner_id, txn_id,
       concat_ws(', ', 'given up after ' || attempts || ' attempts', 'HTTP ' || last_status, last_error)
FROM webhooks.deliveries
WHERE state = 'failed'
UNION ALL
SELECT 'transaction:' || txn_id, created_at, partner_id, txn_id,
       'pending for ' || floor(extract(epoch FROM now() - created_at) / 3600) || ' hours'
FROM ledger.transactions
WHERE state = 'pending' AND created_at < now() - interval '1 hour'
  AND created_at < now() - CASE
    WHEN txn_id IN (SELECT txn_id FROM auditor.waiting_outside WHERE waits_for = 'partner')
    THEN interval '8 days'
    WHEN txn_id IN (SELECT txn_id FROM auditor.waiting_outside) THEN interval '25 hours'
    ELSE interval '1 hour'
  END
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
-- $1 event id, $2 which of its deliveries. A row: one attempt. No row: the webhook was not given
-- up, or never attempted.
SELECT attempt, status, error, took_ms, recorded_at, body
FROM webhooks.deliveries
JOIN webhooks.delivery_attempts USING (event_id, ordinal)
WHERE event_id = $1 AND ordinal = $2 AND state = 'failed'
ORDER BY attempt

-- name: showTransaction
-- A transaction that is pending, as its row has it.
--
-- $1 id. A row: it is pending. No row: it is final, or not there.
SELECT txn_id, kind, partner_id, idempotency_key, amount, currency, payment_id, payment_method,
       details, created_at, due_at, version, provider_intent_id, provider_refund_id
FROM ledger.transactions
WHERE txn_id = $1 AND state = 'pending'

-- name: refused
-- Messages of Pub/Sub that a consumer refused, newest first; they were acknowledged, and had no
-- effect.
--
-- $1 consumer and $2 message id, or null for all; $3 how many of its bytes. A row: one of a
-- consumer; 10 000 at most. Attributes are text, because SQL cannot look into one that holds a NUL.
SELECT consumer, message_id AS "messageId", reason, detail, first_seen AS at,
       octet_length(data) AS bytes, substr(data, 1, $3) AS data, attributes::text AS attributes
FROM consumers.refused_messages
WHERE ($1::text IS NULL OR consumer = $1) AND ($2::text IS NULL OR message_id = $2)
ORDER BY first_seen DESC, consumer, message_id
LIMIT 10000
