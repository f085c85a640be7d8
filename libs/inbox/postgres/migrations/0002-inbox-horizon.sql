-- Inbox rows leave after a while; the cursors stay and know every sequence that took effect. How
-- far the rows have left is kept, so that the audit can tell one that left from one that was lost.

CREATE TABLE inbox_horizons (
  consumer text PRIMARY KEY,
  -- Every row that left was received before this.
  reaped_before timestamptz NOT NULL,
  -- How many rows left.
  events bigint NOT NULL
);

CREATE INDEX inbox_by_age ON inbox (consumer, received_at) WHERE sequence IS NOT NULL;

-- Takes some of a consumer's inbox rows out that were received longer than `keep` ago, oldest first.
--
-- Returns how many; 0 means that none is old enough. A row without a sequence stays for ever: no
-- cursor would know its event. The consumer's role may delete through this function only, and the
-- function forgets nothing younger than a day. Reapers wait for one another at the horizon's row, so
-- a payment's events leave in their order.
CREATE FUNCTION reap_inbox(reaped_consumer text, keep interval, rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  horizon timestamptz := now() - keep;
  reaped integer;
BEGIN
  IF keep < interval '1 day' THEN
    RAISE EXCEPTION 'inbox rows are kept for a day at least, not for %', keep;
  END IF;
  INSERT INTO inbox_horizons VALUES (reaped_consumer, '-infinity', 0) ON CONFLICT DO NOTHING;
  PERFORM FROM inbox_horizons WHERE consumer = reaped_consumer FOR UPDATE;
  DELETE FROM inbox WHERE consumer = reaped_consumer AND event_id IN (
    SELECT event_id FROM inbox
    WHERE consumer = reaped_consumer AND sequence IS NOT NULL AND received_at < horizon
    ORDER BY received_at, sequence
    LIMIT rows_max
  );
  GET DIAGNOSTICS reaped = ROW_COUNT;
  IF reaped > 0 THEN
    UPDATE inbox_horizons
    SET reaped_before = greatest(reaped_before, horizon), events = events + reaped
    WHERE consumer = reaped_consumer;
  END IF;
  RETURN reaped;
END
$$;

REVOKE EXECUTE ON FUNCTION reap_inbox(text, interval, integer) FROM PUBLIC;
DO $$
BEGIN
  -- Whose tables these are is fixed here; temporary tables of the caller come last.
  EXECUTE format(
    'ALTER FUNCTION reap_inbox(text, interval, integer) SET search_path = %I, pg_temp',
    current_schema()
  );
  EXECUTE format(
    'GRANT EXECUTE ON FUNCTION reap_inbox(text, interval, integer) TO %I',
    'triplock_' || current_schema()
  );
END
$$;
GRANT SELECT ON inbox_horizons TO triplock_auditor;
