-- Where the ledger is kept in another store, the tables of this schema hold a copy of it, for whatever
-- reads it by SQL, the audit first of all. The triggers and rights that keep history hold for the copy
-- too, so a store that has none of its own cannot change what was final without being noticed.

-- How far the copy is. No row: nothing was copied, and this is the ledger itself.
CREATE TABLE ledger.copied (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every commit until then is in the copy: microseconds since 1970, by the other store's clock.
  until_micros bigint NOT NULL
);

-- What the other store says of a row, and its history does not allow.
CREATE TABLE ledger.copy_differences (
  kind text NOT NULL CHECK (kind IN ('transaction', 'entry', 'event', 'rows')),
  id text NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, id)
);
CREATE TRIGGER differences_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.copy_differences
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

GRANT SELECT, INSERT, UPDATE (until_micros) ON ledger.copied TO triplock_ledger;
GRANT SELECT, INSERT ON ledger.copy_differences TO triplock_ledger;
-- The copier's audit compares how many rows there are.
GRANT SELECT ON ledger.outbox_horizon TO triplock_ledger;
GRANT SELECT ON ledger.copied, ledger.copy_differences TO triplock_auditor;
