-- All inboxes as one: what every consumer has in a schema of its own inherits from these tables, so
-- a query of one of them reads the rows of all consumers, by their own indexes, and no reader has
-- to know who they are. Nothing is ever put in here: each row lies with its consumer, and leaves
-- with its schema (PostgreSQL manual, 5.11). Keys and triggers are not inherited: they stand with
-- the consumers' tables (../../migrations/0001-baseline.sql).
CREATE SCHEMA consumers;

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
  received_at timestamptz NOT NULL DEFAULT now()
);

-- How far a consumer is in each ordering key: every sequence up to this one took effect, none
-- after.
CREATE TABLE cursors (
  consumer text NOT NULL,
  ordering_key uuid NOT NULL,
  last_sequence integer NOT NULL CHECK (last_sequence >= 1)
);

-- Events that came before the one that precedes them, as they came: the broker was told to forget
-- them, so what is here is nowhere else.
CREATE TABLE early_events (
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  payload_hash text NOT NULL,
  ordering_key uuid NOT NULL,
  -- The first of an ordering key waits for nobody.
  sequence integer NOT NULL CHECK (sequence >= 2),
  -- Type, payload and trace. json and not jsonb, which refuses a NUL and forgets an order.
  event json NOT NULL,
  kept_at timestamptz NOT NULL DEFAULT now()
);

-- How far inbox rows were removed, so that the audit can tell one that was removed from one that
-- was lost.
CREATE TABLE inbox_horizons (
  consumer text NOT NULL,
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
  last_seen timestamptz NOT NULL DEFAULT now()
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
  first_seen timestamptz NOT NULL DEFAULT now()
);

-- Whoever reads all of them: the auditor, and people, who look at what was refused and give it back
-- or dismiss it. A console's own migrations say what that reads.
GRANT USAGE ON SCHEMA consumers TO triplock_auditor, triplock_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA consumers TO triplock_auditor;
GRANT SELECT ON refused_messages TO triplock_operator;

-- How many consumers there are.
CREATE VIEW known AS
SELECT count(*) AS consumers FROM pg_inherits WHERE inhparent = 'consumers.inbox'::regclass;
GRANT SELECT ON known TO triplock_auditor;
