-- Guard 3 at the receiver: an inbox. Every consumer has these tables in its own schema, so that an
-- inbox row and the consumer's effect commit together; the search_path says whose they are. What the
-- columns are stands with the tables that they inherit from (../every-inbox/migrations). Keys begin
-- with what is looked up: what every consumer has of an event is found by its id alone.

CREATE TABLE inbox (PRIMARY KEY (event_id, consumer)) INHERITS (consumers.inbox);
CREATE INDEX inbox_by_age ON inbox (consumer, received_at) WHERE sequence IS NOT NULL;
-- For the audit's windows of time.
CREATE INDEX inbox_by_time ON inbox USING brin (received_at) WITH (autosummarize = on);

-- A cursor begins at 1, each event moves it by one, and it is kept: this holds for the owner of the
-- tables too.
CREATE TABLE cursors (PRIMARY KEY (ordering_key, consumer)) INHERITS (consumers.cursors);
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

-- An early event goes once its cursor has passed it, and no sooner: this holds for the owner of the
-- tables too.
CREATE TABLE early_events (PRIMARY KEY (event_id, consumer)) INHERITS (consumers.early_events);
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

CREATE TABLE inbox_horizons (PRIMARY KEY (consumer)) INHERITS (consumers.inbox_horizons);
CREATE TABLE altered_copies (PRIMARY KEY (event_id, consumer, payload_hash))
INHERITS (consumers.altered_copies);
CREATE TABLE refused_messages (PRIMARY KEY (message_id, consumer))
INHERITS (consumers.refused_messages);

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

-- The guard's step, whose contract admit-events.sql has. To plan it takes longer than to do it for few, so
-- each connection keeps a plan. It is written so that no kept plan is bad, however small the tables were
-- when it was made: a cursor is looked up row by row (OFFSET 0) and found again by where it lies, and sets
-- are looked up in a hash (IN).
CREATE FUNCTION admit_events(
  admitting text, ids uuid[], hashes text[], keys uuid[], sequences integer[]
) RETURNS TABLE (at integer, remembered boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH offered AS MATERIALIZED (
      SELECT * FROM unnest(ids, hashes, keys, sequences)
        WITH ORDINALITY AS t (event_id, payload_hash, ordering_key, sequence, at)
    ), next AS MATERIALIZED (
      SELECT later.sequence, held.lies
      FROM (
        SELECT ordering_key, sequence FROM offered WHERE sequence > 1 ORDER BY ordering_key OFFSET 0
      ) AS later
      CROSS JOIN LATERAL (
        SELECT cursors.ctid AS lies FROM cursors
        WHERE cursors.ordering_key = later.ordering_key AND cursors.consumer = admitting
          AND cursors.last_sequence = later.sequence - 1
        FOR UPDATE
      ) AS held
    ), advanced AS (
      UPDATE cursors SET last_sequence = next.sequence
      FROM next
      WHERE cursors.ctid = next.lies AND cursors.last_sequence = next.sequence - 1
      RETURNING cursors.ordering_key
    ), begun AS (
      INSERT INTO cursors (consumer, ordering_key, last_sequence)
      SELECT admitting, ordering_key, 1 FROM offered WHERE sequence = 1 ORDER BY ordering_key
      ON CONFLICT (consumer, ordering_key) DO NOTHING
      RETURNING cursors.ordering_key
    ), in_order AS MATERIALIZED (
      SELECT * FROM offered
      WHERE sequence IS NULL
         OR ordering_key IN (
              SELECT advanced.ordering_key FROM advanced
              UNION ALL SELECT begun.ordering_key FROM begun
            )
    ), known_now AS (
      INSERT INTO inbox (consumer, event_id, payload_hash, ordering_key, sequence)
      SELECT admitting, event_id, payload_hash, ordering_key, sequence FROM in_order ORDER BY ordering_key
      ON CONFLICT (consumer, event_id) DO NOTHING
      RETURNING inbox.event_id, inbox.ordering_key
    )
    SELECT in_order.at::integer,
           (in_order.event_id, in_order.ordering_key) IN (
             SELECT known_now.event_id, known_now.ordering_key FROM known_now
           )
    FROM in_order
    ORDER BY 1;
END
$$;
REVOKE EXECUTE ON FUNCTION admit_events(text, uuid[], text[], uuid[], integer[]) FROM PUBLIC;

-- What took effect is not unmade: nobody but the owner of the tables may delete, but early events
-- that were applied, and only how far a cursor is and how often an altered copy came ever change.
DO $$
DECLARE
  consumer_role text := 'triplock_' || current_schema();
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
    'ALTER FUNCTION admit_events(text, uuid[], text[], uuid[], integer[]) SET search_path = %I, pg_temp',
    current_schema()
  );
  EXECUTE format(
    'GRANT EXECUTE ON FUNCTION reap_inbox(text, interval, integer) TO %I', consumer_role
  );
  EXECUTE format(
    'GRANT EXECUTE ON FUNCTION admit_events(text, uuid[], text[], uuid[], integer[]) TO %I', consumer_role
  );
  -- An inbox is refused at the boot when the outbox can bring an event again that it forgot.
  EXECUTE format('GRANT USAGE ON SCHEMA ledger TO %I', consumer_role);
  EXECUTE format('GRANT EXECUTE ON FUNCTION ledger.outbox_kept() TO %I', consumer_role);
END
$$;
GRANT SELECT ON inbox, cursors, early_events, inbox_horizons, altered_copies, refused_messages
TO triplock_auditor;
