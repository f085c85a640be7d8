-- Stores the provider's id of a refund that the provider has yet to finish.
--
-- $1 id, $2 the version that was read, $3 the provider's id.
-- A row: it is stored, with the version the refund has now. No row: it is final, or of another
-- version.
UPDATE ledger.transactions
SET provider_refund_id = $3, version = version + 1
WHERE txn_id = $1 AND version = $2 AND state = 'pending' AND kind = 'refund'
RETURNING version
