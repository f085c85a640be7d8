-- One page of a partner's webhook deliveries, the newest first.
--
-- $1 partner id, $2 rows at most, $3 state or null for all, $4 and $5 the time and id of the last
-- delivery on the page before, or nulls for the first page, $6 transaction id or null for all.
-- A row: one delivery. `next_attempt_at` is null unless an attempt is due or under way.
SELECT event_id, type, txn_id, state, attempts, last_status, last_error, created_at,
       CASE WHEN state = 'delivered' THEN finished_at END AS delivered_at,
       CASE WHEN state = 'pending' THEN next_attempt_at END AS next_attempt_at
FROM notifier.partner_deliveries
WHERE partner_id = $1
  AND ($3::text IS NULL OR state = $3)
  AND ($6::uuid IS NULL OR txn_id = $6)
  AND ($4::timestamptz IS NULL OR (created_at, event_id) < ($4, $5::uuid))
ORDER BY created_at DESC, event_id DESC
LIMIT $2
