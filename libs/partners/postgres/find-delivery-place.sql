-- Where a delivery stands in its partner's list. Neither ever changes.
--
-- $1 partner id, $2 event id.
-- A row: its time as text, because a JavaScript date would cut the microseconds off. No row: the
-- partner has no such delivery.
SELECT created_at::text AS created_at FROM notifier.partner_deliveries
WHERE partner_id = $1 AND event_id = $2
