-- Takes guard 3 out of a database: the notifier knows no event again.
--
-- No parameters, no rows. The statement that admits an event names the inbox's key, so the key stays
-- and the memory goes: whatever is known of an event is taken out when a copy of it comes. That is
-- its inbox row, the payment's cursor, and the delivery that it made, whose key would know it too.
-- It holds for the first event of a payment: of
-- the later ones the admission reads the cursor as it was before this trigger.

DROP TRIGGER IF EXISTS cursors_are_kept ON notifier.cursors;

CREATE OR REPLACE FUNCTION notifier.forget_event() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = notifier, pg_temp AS $$
BEGIN
  DELETE FROM inbox WHERE consumer = NEW.consumer AND event_id = NEW.event_id;
  IF NEW.sequence = 1 THEN
    DELETE FROM cursors WHERE consumer = NEW.consumer AND payment_id = NEW.payment_id;
  END IF;
  DELETE FROM delivery_attempts WHERE event_id = NEW.event_id;
  WITH gone AS (
    DELETE FROM deliveries WHERE event_id = NEW.event_id RETURNING *
  )
  INSERT INTO earlier_deliveries SELECT * FROM gone;
  RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER forget_event BEFORE INSERT ON notifier.inbox
  FOR EACH ROW EXECUTE FUNCTION notifier.forget_event();
