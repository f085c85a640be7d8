-- When the last scheduled audit ended, and since when what it found in flight has been so: by that a
-- backlog that grows old is told from one that is always new.
ALTER TABLE scheduled_audit
  ADD COLUMN ended_at timestamptz,
  -- Times by check, of the oldest each.
  ADD COLUMN in_flight_since json NOT NULL DEFAULT '{}';

GRANT UPDATE (ended_at, in_flight_since) ON scheduled_audit TO triplock_auditor;
