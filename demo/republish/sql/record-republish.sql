-- Says who republishes since when, and why.
--
-- $1 since when, $2 who, $3 why or null. Always one row: before which time of publishing events
-- have left the outbox, or null when none has.
WITH act AS (
  INSERT INTO auditor.operator_acts (act, subject, done_by, why)
  VALUES ('republish', 'since ' || $1::text, $2, $3)
)
SELECT nullif(reaped_before, '-infinity') AS "leftBefore" FROM ledger.outbox_horizon
