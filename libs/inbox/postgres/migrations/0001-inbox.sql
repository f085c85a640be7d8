-- Guard 3 at the receiver. Every consumer has these tables in its own schema, so that an inbox row
-- and the consumer's effect commit together; the search_path says whose they are.

-- One row per event that took effect. Rows leave after 30 days; the cursors stay for ever, so a
-- copy that comes even later is still known by its sequence.
CREATE TABLE inbox (
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  -- SHA-256 of the bytes as published, lower-case hex.
  payload_hash text NOT NULL,
  payment_id uuid NOT NULL,
  -- Null for an event that settles nothing and so has no place in the payment's order.
  sequence integer CHECK (sequence >= 1),
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, event_id)
);

-- How far a consumer is in each payment: every sequence up to this one took effect, none after it.
CREATE TABLE cursors (
  consumer text NOT NULL,
  payment_id uuid NOT NULL,
  last_sequence integer NOT NULL CHECK (last_sequence >= 1),
  PRIMARY KEY (consumer, payment_id)
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

-- What took effect is not unmade: nobody but the owner of the tables may delete, and only a cursor
-- and the count of an altered copy ever change.
DO $$
DECLARE consumer_role text := 'triplock_' || current_schema();
BEGIN
  EXECUTE format('GRANT SELECT, INSERT ON inbox, refused_messages TO %I', consumer_role);
  EXECUTE format('GRANT SELECT, INSERT, UPDATE ON cursors, altered_copies TO %I', consumer_role);
END
$$;
GRANT SELECT ON inbox, cursors, altered_copies, refused_messages TO triplock_auditor;
