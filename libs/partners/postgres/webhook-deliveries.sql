-- Webhook deliveries as partners see them, by the view and the functions of the schema webhooks
-- (webhooks/migrations/0001-baseline.sql).

-- name: listDeliveries
-- One page of a partner's webhook deliveries, the newest first.
--
-- $1 partner id, $2 rows at most, $3 state or null for all, $4 and $5 the time and id of the last
-- delivery on the page before, or nulls for the first page, $6 transaction id or null for all, $7
-- which of its event's deliveries that last one is. A row: one delivery. `next_attempt_at` is null
-- unless an attempt is due or under way.
SELECT event_id, ordinal, endpoint_id, type, txn_id, state, attempts, last_status, last_error, created_at,
       CASE WHEN state = 'delivered' THEN finished_at END AS delivered_at,
       CASE WHEN state = 'pending' THEN next_attempt_at END AS next_attempt_at
FROM webhooks.partner_deliveries
WHERE partner_id = $1
  AND ($3::text IS NULL OR state = $3)
  AND ($6::uuid IS NULL OR txn_id = $6)
  AND ($4::timestamptz IS NULL OR (created_at, event_id, ordinal) < ($4, $5::uuid, $7::smallint))
ORDER BY created_at DESC, event_id DESC, ordinal DESC
LIMIT $2

-- name: findDeliveryPosition
-- The position of a delivery in its partner's list, which never changes.
--
-- $1 partner id, $2 event id, $3 which of the event's deliveries.
-- A row: its time as text, because a JavaScript date would cut the microseconds off. No row: the
-- partner has no such delivery.
SELECT created_at::text AS created_at FROM webhooks.partner_deliveries
WHERE partner_id = $1 AND event_id = $2 AND ordinal = $3

-- name: redeliver
-- Makes a webhook delivery due now, and tells the senders behind the commit.
--
-- $1 partner id, $2 event id, $3 which of the event's deliveries.
-- A row: the delivery as it is now. No row: the partner has no such delivery.
SELECT event_id, ordinal, endpoint_id, type, txn_id, state, attempts, last_status, last_error, created_at,
       CASE WHEN state = 'delivered' THEN finished_at END AS delivered_at,
       CASE WHEN state = 'pending' THEN next_attempt_at END AS next_attempt_at
FROM webhooks.redeliver($1, $2, $3::smallint), pg_notify('triplock_webhooks', '')

-- name: redeliverWindow
-- Makes a partner's webhook deliveries of a window due now, and tells the senders behind the
-- commit.
--
-- $1 partner id, $2 idempotency key, $3 fingerprint, $4 since, $5 until or null for now, $6 state
-- or null for any, $7 deliveries at most, but for those of one moment.
-- Always one row. Times are texts, because a JavaScript date would cut the microseconds off, and
-- going on from such a time would take deliveries twice.
SELECT outcome, state, deliveries,
       to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS since,
       to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS until,
       to_char(next_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS next_since
FROM webhooks.redeliver_window($1, $2, $3, $4, $5, $6, $7),
     pg_notify('triplock_webhooks', '')
