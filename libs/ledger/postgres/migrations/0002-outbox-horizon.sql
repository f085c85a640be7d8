-- Published events leave the outbox after a while, and nothing else ever does. How far they have
-- left is kept, so that the audit can tell an event that left from one that was lost.

CREATE TABLE ledger.outbox_horizon (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every event that left was published before this.
  reaped_before timestamptz NOT NULL DEFAULT '-infinity',
  -- How many events left.
  events bigint NOT NULL DEFAULT 0
);
INSERT INTO ledger.outbox_horizon DEFAULT VALUES;

-- Read oldest first by the reaper, and by whoever publishes again what was published since a time.
CREATE INDEX outbox_published ON ledger.outbox (published_at) WHERE state = 'published';

-- A key conflict has no sequence, so no cursor remembers it: its row is what keeps a request that
-- lost its key from being told of twice, and stays. One that waits or is parked is not told yet.
CREATE FUNCTION ledger.guard_outbox_leaving() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> 'published' OR OLD.sequence IS NULL THEN
    RAISE EXCEPTION 'event %: only a published event of a settlement leaves', OLD.event_id;
  END IF;
  RETURN OLD;
END
$$;

CREATE TRIGGER events_leave_when_published BEFORE DELETE ON ledger.outbox
  FOR EACH ROW EXECUTE FUNCTION ledger.guard_outbox_leaving();

-- Takes some events out of the outbox that were published longer than `keep` ago, oldest first.
--
-- Returns how many; 0 means that none is old enough. The role of the services may delete through
-- this function only, and the function forgets nothing younger than a day, whatever it is asked.
-- Reapers wait for one another at the horizon's row, so the oldest always leave first.
CREATE FUNCTION ledger.reap_outbox(keep interval, rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  horizon timestamptz := now() - keep;
  reaped integer;
BEGIN
  IF keep < interval '1 day' THEN
    RAISE EXCEPTION 'published events are kept for a day at least, not for %', keep;
  END IF;
  PERFORM FROM ledger.outbox_horizon FOR UPDATE;
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

REVOKE EXECUTE ON FUNCTION ledger.reap_outbox(interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.reap_outbox(interval, integer) TO triplock_ledger;
GRANT SELECT ON ledger.outbox_horizon TO triplock_auditor;
