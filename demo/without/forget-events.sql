-- Takes guard 3 out of a database: the notifier knows no event again.
--
-- No parameters, no rows. The statement that admits events names the keys of cursors and inbox, so
-- the keys stay and the memory goes: whatever is known of a payment's first event is taken out when
-- a copy of it comes and its cursor is to begin. That is its inbox row, the cursor, and the
-- delivery that it made, whose key would know it too. Of the later events the cursor goes on
-- knowing.

DROP TRIGGER IF EXISTS cursors_are_kept ON notifier.cursors;

CREATE OR REPLACE FUNCTION notifier.forget_event() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = notifier, pg_temp AS $$
DECLARE known uuid[];
BEGIN
  DELETE FROM cursors WHERE consumer = NEW.consumer AND ordering_key = NEW.ordering_key;
  WITH forgotten AS (
    DELETE FROM inbox
    WHERE consumer = NEW.consumer AND ordering_key = NEW.ordering_key AND sequence = 1
    RETURNING event_id
  )
  SELECT array_agg(event_id) INTO known FROM forgotten;
  DELETE FROM delivery_attempts WHERE event_id = ANY (known);
  WITH gone AS (
    DELETE FROM deliveries WHERE event_id = ANY (known) RETURNING *
  )
  INSERT INTO earlier_deliveries SELECT * FROM gone;
  RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER forget_event BEFORE INSERT ON notifier.cursors
  FOR EACH ROW EXECUTE FUNCTION notifier.forget_event();
