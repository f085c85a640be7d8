-- The auditor applies nothing and counts every copy, which is just what an inbox is there to keep
-- away. Of an inbox's tables it needs one: messages that are no event. The others leave with the set
-- of migrations that once made them here.

DROP FUNCTION IF EXISTS reap_inbox(text, interval, integer);
DROP TABLE IF EXISTS inbox, cursors, altered_copies, inbox_horizons;

-- In the form that every consumer has; here already where that set once ran.
CREATE TABLE IF NOT EXISTS refused_messages (
  consumer text NOT NULL,
  message_id text NOT NULL,
  reason text NOT NULL,
  detail text NOT NULL,
  data bytea NOT NULL,
  -- Not jsonb, which refuses a NUL.
  attributes json NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, message_id)
);
GRANT SELECT, INSERT ON refused_messages TO triplock_auditor;
