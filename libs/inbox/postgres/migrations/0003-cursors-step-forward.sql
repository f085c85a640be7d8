-- A cursor says that every sequence up to it took effect. So it begins at 1, each event moves it by
-- one, and it is kept: this holds for the owner of the tables too.

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
    OR (NEW.consumer, NEW.payment_id) IS DISTINCT FROM (OLD.consumer, OLD.payment_id)
  ) EXECUTE FUNCTION refuse_cursor();
CREATE TRIGGER cursors_are_kept BEFORE DELETE OR TRUNCATE ON cursors
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_cursor();

-- By column where a row changes.
DO $$
DECLARE consumer_role text := 'triplock_' || current_schema();
BEGIN
  EXECUTE format('REVOKE UPDATE ON cursors, altered_copies FROM %I', consumer_role);
  EXECUTE format('GRANT UPDATE (last_sequence) ON cursors TO %I', consumer_role);
  EXECUTE format('GRANT UPDATE (copies, last_seen) ON altered_copies TO %I', consumer_role);
END
$$;
