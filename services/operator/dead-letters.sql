-- What was set aside in the database: parked events, webhooks that were given up and transactions
-- that come to no end. Dead letters of Kafka are in a topic.

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
SELECT 'webhook:' || notifier.delivery_name(event_id, ordinal), finished_at, partner_id, txn_id,
       concat_ws(', ', 'given up after ' || attempts || ' attempts', 'HTTP ' || last_status, last_error)
FROM notifier.deliveries
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
FROM notifier.deliveries
JOIN notifier.delivery_attempts USING (event_id, ordinal)
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

-- name: wakeTransaction
-- Lets a pending transaction be due now, for any worker's resolver.
--
-- $1 id. A row: it is due. No row: it is final, or not there. Its version stays, so a worker that
-- is at it goes on.
UPDATE ledger.transactions SET due_at = now()
WHERE txn_id = $1 AND state = 'pending'
RETURNING txn_id AS event_id

-- name: renewDelivery
-- Makes a webhook that was given up due at once, with all the time for retries again.
--
-- $1 event id, $2 which of its deliveries. A row: it is due. No row: it was not given up. Attempts
-- go on counting, because their number is what keeps an overtaken sender from recording.
UPDATE notifier.deliveries
SET state = 'pending', finished_at = NULL, first_attempt_at = NULL, next_attempt_at = now()
WHERE event_id = $1 AND ordinal = $2 AND state = 'failed'
RETURNING event_id

-- name: clock
-- The database's time, as text, which a JavaScript date would cut.
SELECT now()::text AS now

-- name: renewDeliveries
-- Does the same to webhooks of a partner that were given up, oldest first, and records each as a
-- redrive of its own, in one statement: one that is redriven and not recorded, or the other way
-- round, there is not.
--
-- $1 partner id, $2 made from then on or null, $3 made before then or null, $4 given up by then, so
-- that one which is given up once more while this goes on is left; $5 who, $6 why or null, $7 how
-- many at most. A row: one that is due. Of two at once the second waits for the first, and finds
-- what that one left.
WITH chosen AS MATERIALIZED (
  SELECT event_id, ordinal FROM notifier.deliveries
  WHERE state = 'failed' AND partner_id = $1
    AND created_at >= coalesce($2::timestamptz, '-infinity')
    AND created_at < coalesce($3::timestamptz, 'infinity')
    AND finished_at <= $4::timestamptz
  ORDER BY created_at, event_id, ordinal
  LIMIT $7
  FOR UPDATE
), renewed AS (
  UPDATE notifier.deliveries
  SET state = 'pending', finished_at = NULL, first_attempt_at = NULL, next_attempt_at = now()
  FROM chosen
  WHERE deliveries.event_id = chosen.event_id AND deliveries.ordinal = chosen.ordinal
  RETURNING deliveries.event_id, deliveries.ordinal
), recorded AS (
  INSERT INTO auditor.operator_acts (act, subject, done_by, why)
  SELECT 'redrive', 'webhook:' || notifier.delivery_name(event_id, ordinal), $5, $6 FROM renewed
)
SELECT event_id FROM renewed
