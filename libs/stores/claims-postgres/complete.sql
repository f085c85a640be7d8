-- Stores the answer of a claim for replay. One atomic step.
--
-- $1 namespace, $2 txn_id, $3 owner token, $4 status, $5 location, $6 body.
-- A row: the answer is stored, also when this owner had stored it before. No row: the claim is
-- another owner's or gone, and nothing was written. The last owner may complete after its lease or
-- its release: as long as it was not taken over, its answer is the only one.
UPDATE claims SET state = 'completed', status = $4, location = $5, body = $6
WHERE namespace = $1 AND txn_id = $2 AND owner = $3 AND expires_at > clock_timestamp()
RETURNING txn_id
