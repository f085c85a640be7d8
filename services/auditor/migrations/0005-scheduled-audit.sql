-- One scheduled audit however many auditors run: whoever finds it due takes the turn, and what it
-- found is here for all of them to tell.

CREATE TABLE scheduled_audit (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Audits begun. It is also the fence: one that was overtaken leaves no result.
  turn bigint NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT '-infinity',
  -- Of the last audit that came to its end.
  took_ms integer NOT NULL DEFAULT 0,
  -- How many offending ids by check, 100 per check at most.
  drift json NOT NULL DEFAULT '{}',
  in_flight json NOT NULL DEFAULT '{}'
);
INSERT INTO scheduled_audit DEFAULT VALUES;

GRANT SELECT, UPDATE (turn, due_at, took_ms, drift, in_flight)
ON scheduled_audit TO triplock_auditor;
