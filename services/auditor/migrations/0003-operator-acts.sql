-- What people did to the system by hand, such as redriving a dead letter: who, when and why. It is
-- only added to.
CREATE TABLE operator_acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act text NOT NULL,
  -- What it was done to, e.g. `outbox:<event id>`.
  subject text NOT NULL,
  done_by text NOT NULL CHECK (done_by <> ''),
  why text,
  done_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX operator_acts_by_subject ON operator_acts (subject, act_id);

CREATE TRIGGER acts_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_acts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

GRANT SELECT ON operator_acts TO triplock_auditor;
