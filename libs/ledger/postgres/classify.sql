-- Reads what stands under ids that could not be inserted.
--
-- $1 ids. It must be a statement of its own after the insert: under READ COMMITTED it then sees
-- the rows that the insert waited for, which the insert's own snapshot does not.
-- A row: the id's transaction. No row: the transaction that had inserted it rolled back; post
-- again.
SELECT txn_id, encode(fingerprint, 'hex') AS fingerprint, state, version
FROM ledger.transactions
WHERE txn_id = ANY ($1::uuid[])
