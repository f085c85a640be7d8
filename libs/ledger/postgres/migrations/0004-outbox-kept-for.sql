-- For how long published events are kept, as the dispatchers have it. A consumer's inbox must
-- remember an event for as long as it can be republished, and reads that here: the setting is made in
-- one place.

-- What the last reaper was told; null until one ran.
ALTER TABLE ledger.outbox_horizon ADD COLUMN kept_for interval;

-- As before, and says for how long it keeps.
CREATE OR REPLACE FUNCTION ledger.reap_outbox(keep interval, rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  horizon timestamptz := now() - keep;
  reaped integer;
BEGIN
  IF keep < interval '1 day' THEN
    RAISE EXCEPTION 'published events are kept for a day at least, not for %', keep;
  END IF;
  PERFORM FROM ledger.outbox_horizon FOR UPDATE;
  UPDATE ledger.outbox_horizon SET kept_for = keep WHERE kept_for IS DISTINCT FROM keep;
  DELETE FROM ledger.outbox WHERE event_id IN (
    SELECT event_id FROM ledger.outbox
    WHERE state = 'published' AND sequence IS NOT NULL AND published_at < horizon
    ORDER BY published_at, order_id
    LIMIT rows_max
  ) AND state = 'published' AND published_at < horizon;
  GET DIAGNOSTICS reaped = ROW_COUNT;
  IF reaped > 0 THEN
    UPDATE ledger.outbox_horizon
    SET reaped_before = greatest(reaped_before, horizon), events = events + reaped;
  END IF;
  RETURN reaped;
END
$$;

GRANT USAGE ON SCHEMA ledger TO triplock_notifier;
GRANT SELECT (kept_for) ON ledger.outbox_horizon TO triplock_notifier;
