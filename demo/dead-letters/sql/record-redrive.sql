-- Records who redrives a dead letter and why, unless that is recorded already.
--
-- $1 id, $2 who, $3 why or null, $4 whether it may be redriven once more.
-- A row: it is recorded, and the redrive must follow in this transaction. No row: it was redriven
-- before, and nothing was written. Two at once on one id take turns at the lock, taken before.
INSERT INTO auditor.operator_acts (act, subject, done_by, why)
SELECT 'redrive', $1, $2, $3
WHERE $4 OR NOT EXISTS (
  SELECT FROM auditor.operator_acts WHERE act = 'redrive' AND subject = $1
)
RETURNING act_id
