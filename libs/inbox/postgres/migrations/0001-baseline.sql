-- Guard 3 at the receiver: an inbox. Every consumer has these tables in its own schema, so that an
-- inbox row and the consumer's effect commit together; the search_path says whose they are.

-- One row per event that took effect. Rows are removed after a while; the cursors stay for ever, so
-- a copy that comes even later is still known by its sequence.
CREATE TABLE inbox (
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  -- SHA-256 of the bytes as published, lower-case hex.
  payload_hash text NOT NULL,
  -- What orders the event: its payment.
  ordering_key uuid NOT NULL,
  -- Null for an event that waits for no other.
  sequence integer CHECK (sequence >= 1),
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, event_id)
);
CREATE INDEX inbox_by_age ON inbox (consumer, received_at) WHERE sequence IS NOT NULL;
-- For the audit's windows of time.
CREATE INDEX inbox_by_time ON inbox USING brin (received_at) WITH (autosummarize = on);

-- How far a consumer is in each ordering key: every sequence up to this one took effect, none after.
-- So a cursor begins at 1, each event moves it by one, and it is kept: this holds for the owner of
-- the tables too.
CREATE TABLE cursors (
  consumer text NOT NULL,
  ordering_key uuid NOT NULL,
  last_sequence integer NOT NULL CHECK (last_sequence >= 1),
  PRIMARY KEY (consumer, ordering_key)
);
CREATE FUNCTION refuse_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: a cursor begins at 1, steps forward by one and is kept',
    TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;
CREATE TRIGGER cursors_begin_at_one BEFORE INSERT ON cursors
  FOR EACH ROW WHEN (NEW.last_sequence <> 1) EXECUTE FUNCTION refuse_cursor();
CREATE TRIGGER cursors_step_forward BEFORE UPDATE ON cursors
  FOR EACH ROW WHEN (
    NEW.last_sequence <> OLD.last_sequence + 1
    OR (NEW.consumer, NEW.ordering_key) IS DISTINCT FROM (OLD.consumer, OLD.ordering_key)
  ) EXECUTE FUNCTION refuse_cursor();
CREATE TRIGGER cursors_are_kept BEFORE DELETE OR TRUNCATE ON cursors
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_cursor();

-- Events that came before the one that precedes them, as they came: the broker was told to forget
-- them, so what is here is nowhere else. A row goes once its cursor has passed it, and no sooner:
-- this holds for the owner of the tables too.
CREATE TABLE early_events (
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  payload_hash text NOT NULL,
  ordering_key uuid NOT NULL,
  -- The first of an ordering key waits for nobody.
  sequence integer NOT NULL CHECK (sequence >= 2),
  -- Type, payload and trace. json and not jsonb, which refuses a NUL and forgets an order.
  event json NOT NULL,
  kept_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, event_id)
);
CREATE INDEX early_events_by_order ON early_events (consumer, ordering_key, sequence);
CREATE FUNCTION refuse_loss_of_early() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND EXISTS (
    SELECT FROM cursors
    WHERE cursors.consumer = OLD.consumer AND cursors.ordering_key = OLD.ordering_key
      AND cursors.last_sequence >= OLD.sequence
  ) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION '% of %.% is refused: an early event stays until its cursor has passed it',
    TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;
CREATE TRIGGER early_events_leave_applied BEFORE DELETE ON early_events
  FOR EACH ROW EXECUTE FUNCTION refuse_loss_of_early();
CREATE TRIGGER early_events_are_kept BEFORE TRUNCATE ON early_events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_loss_of_early();

-- How far inbox rows were removed, so that the audit can tell one that was removed from one that was
-- lost.
CREATE TABLE inbox_horizons (
  consumer text PRIMARY KEY,
  -- Every row that was removed was received before this.
  reaped_before timestamptz NOT NULL,
  -- How many were removed.
  events bigint NOT NULL
);

-- Copies of a known event with other bytes. None was applied, and each needs a person.
CREATE TABLE altered_copies (
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  payload_hash text NOT NULL,
  known_hash text NOT NULL,
  copies integer NOT NULL DEFAULT 1,
  first_seen timestamptz NOT NULL DEFAULT now(),
  last_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, event_id, payload_hash)
);

-- Messages that are no event of ours, with their bytes as received. They are acknowledged, because
-- no redelivery makes them better. Attributes are json and not jsonb, which refuses a NUL.
CREATE TABLE refused_messages (
  consumer text NOT NULL,
  message_id text NOT NULL,
  reason text NOT NULL,
  detail text NOT NULL,
  data bytea NOT NULL,
  attributes json NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, message_id)
);

-- Removes some of a consumer's inbox rows that were received longer than `keep` ago, oldest first.
--
-- Returns how many; 0 means that none is old enough. A row without a sequence stays for ever: no
-- cursor would know its event. The consumer's role may delete through this function only, and the
-- function forgets nothing younger than a day. Reapers wait for one another at the horizon's row, so
-- the events of an ordering key are removed in their order.
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

-- What took effect is not unmade: nobody but the owner of the tables may delete, but early events
-- that were applied, and only how far a cursor is and how often an altered copy came ever change.
DO $$
DECLARE
  consumer_role text := 'triplock_' || current_schema();
  reader text;
BEGIN
  EXECUTE format('GRANT SELECT, INSERT ON inbox, cursors TO %I', consumer_role);
  EXECUTE format('GRANT SELECT, INSERT ON altered_copies, refused_messages TO %I', consumer_role);
  EXECUTE format('GRANT SELECT, INSERT, DELETE ON early_events TO %I', consumer_role);
  EXECUTE format('GRANT UPDATE (last_sequence) ON cursors TO %I', consumer_role);
  EXECUTE format('GRANT UPDATE (copies, last_seen) ON altered_copies TO %I', consumer_role);
  -- Whose tables these are is fixed here; temporary tables of the caller come last.
  EXECUTE format(
    'ALTER FUNCTION reap_inbox(text, interval, integer) SET search_path = %I, pg_temp',
    current_schema()
  );
  EXECUTE format(
    'ALTER FUNCTION refuse_loss_of_early() SET search_path = %I, pg_temp', current_schema()
  );
  EXECUTE format(
    'GRANT EXECUTE ON FUNCTION reap_inbox(text, interval, integer) TO %I', consumer_role
  );
  -- An inbox is refused at the boot when the outbox can bring an event again that it forgot.
  EXECUTE format('GRANT USAGE ON SCHEMA ledger TO %I', consumer_role);
  EXECUTE format('GRANT EXECUTE ON FUNCTION ledger.outbox_kept() TO %I', consumer_role);
  -- What was refused is looked at, and given back or dismissed, by people; a console need not be there.
  FOR reader IN SELECT rolname FROM pg_roles
    WHERE rolname IN ('triplock_operator', 'triplock_console')
  LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    EXECUTE format('GRANT SELECT ON refused_messages TO %I', reader);
  END LOOP;
END
$$;
GRANT SELECT ON inbox, cursors, early_events, inbox_horizons, altered_copies, refused_messages
TO triplock_auditor;
