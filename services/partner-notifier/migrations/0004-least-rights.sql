-- Whoever works on deliveries may change only what its work changes.

-- A sender sets what its attempt came to. What a webhook says, to whom and under which id was said
-- when the delivery was made.
REVOKE INSERT, UPDATE ON deliveries FROM triplock_notifier;
GRANT INSERT (event_id, partner_id, txn_id, body),
      UPDATE (state, attempts, next_attempt_at, lease_owner, first_attempt_at,
              last_status, last_error, last_outcome, finished_at)
ON deliveries TO triplock_notifier;

-- Makes a delivery due now, under the same webhook-id and with a day of attempts before it.
--
-- Gives the delivery as it is now: one that is being sent is left alone, and one that waited for its
-- next attempt waits no longer, so asking twice does what asking once does. Nothing when the partner
-- has no such delivery. The gateway may change a delivery by this alone: it cannot call one
-- delivered that was not, nor one given up.
CREATE FUNCTION redeliver(of_partner text, of_event uuid) RETURNS SETOF partner_deliveries
LANGUAGE sql SECURITY DEFINER SET search_path = notifier, pg_temp
BEGIN ATOMIC
  UPDATE deliveries SET
    state = 'pending',
    first_attempt_at = NULL,
    next_attempt_at = now(),
    finished_at = NULL
  WHERE partner_id = of_partner AND event_id = of_event
    AND NOT (state = 'pending' AND lease_owner IS NOT NULL);
  SELECT * FROM partner_deliveries
  WHERE partner_id = of_partner AND event_id = of_event;
END;
REVOKE ALL ON FUNCTION redeliver FROM PUBLIC;
GRANT EXECUTE ON FUNCTION redeliver TO triplock_gateway;

REVOKE UPDATE ON partner_deliveries FROM triplock_gateway;
-- A right to the whole and a right to columns are kept apart, and the columns' was granted.
REVOKE UPDATE (state, first_attempt_at, next_attempt_at, finished_at)
ON partner_deliveries FROM triplock_gateway;
