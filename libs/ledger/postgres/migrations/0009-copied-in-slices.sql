-- A backlog of the other store is copied in slices, each a transaction of its own.

-- True between two of them: what was changed last until `until_micros` is in the copy, and of what
-- changed later some is here already and some is not. Who needs the ledger as of one moment waits.
ALTER TABLE ledger.copied ADD COLUMN behind boolean NOT NULL DEFAULT false;

GRANT UPDATE (behind) ON ledger.copied TO triplock_ledger;
