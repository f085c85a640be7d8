-- Makes a webhook delivery due now, under the same webhook-id and with a day of attempts before it.
--
-- $1 partner id, $2 event id.
-- A row: the delivery as it is now. One that is being sent is left alone, and one that waited for
-- its next attempt waits no longer; so asking twice does what asking once does. No row: the partner
-- has no such delivery.
WITH due AS (
  UPDATE notifier.partner_deliveries SET
    state = 'pending',
    first_attempt_at = NULL,
    next_attempt_at = now(),
    finished_at = NULL
  WHERE partner_id = $1 AND event_id = $2 AND NOT (state = 'pending' AND being_sent)
  RETURNING *
), now_is AS (
  SELECT * FROM due
  UNION ALL
  SELECT * FROM notifier.partner_deliveries
  WHERE partner_id = $1 AND event_id = $2 AND NOT EXISTS (SELECT FROM due)
)
SELECT event_id, type, txn_id, state, attempts, last_status, last_error, created_at,
       CASE WHEN state = 'delivered' THEN finished_at END AS delivered_at,
       CASE WHEN state = 'pending' THEN next_attempt_at END AS next_attempt_at
FROM now_is
