-- What takes a guard out of a system's own database. Each is run as the owner; no parameters, no
-- rows.

-- name: keepEarlierDeliveries
-- Where deliveries go that another one takes the place of, to be counted; empty unless the inbox
-- forgets.
CREATE TABLE IF NOT EXISTS notifier.earlier_deliveries (LIKE webhooks.deliveries);
GRANT SELECT ON notifier.earlier_deliveries TO triplock_auditor;

-- name: forgetPayments
-- Takes guard 2 out of a database: a payment is posted as often as its record comes.
--
-- Every key goes by which a second posting would be known: those of the transaction, and those of
-- the entry and the event that commit with it. Posting itself stays as it is: its ON CONFLICT names
-- no key, so it finds none to conflict with.

ALTER TABLE ledger.transactions DROP CONSTRAINT IF EXISTS one_transaction_per_key;
-- The entries refer to it.
ALTER TABLE ledger.transactions DROP CONSTRAINT IF EXISTS transactions_pkey CASCADE;
ALTER TABLE ledger.entries DROP CONSTRAINT IF EXISTS entries_pkey;
ALTER TABLE ledger.outbox DROP CONSTRAINT IF EXISTS one_event_per_sequence;
ALTER TABLE ledger.outbox DROP CONSTRAINT IF EXISTS outbox_pkey;

-- name: forgetEvents
-- Takes guard 3 out of a database: the notifier knows no event again.
--
-- The statement that admits events names the keys of cursors and inbox, so the keys stay and the
-- memory goes: whatever is known of a payment's first event is taken out when a copy of it comes
-- and its cursor is to begin. That is its inbox row, the cursor, and the delivery that it made,
-- whose key would know it too. Of the later events the cursor goes on knowing.

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
  DELETE FROM webhooks.delivery_attempts WHERE event_id = ANY (known);
  WITH gone AS (
    DELETE FROM webhooks.deliveries WHERE event_id = ANY (known) RETURNING *
  )
  INSERT INTO earlier_deliveries SELECT * FROM gone;
  RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER forget_event BEFORE INSERT ON notifier.cursors
  FOR EACH ROW EXECUTE FUNCTION notifier.forget_event();
