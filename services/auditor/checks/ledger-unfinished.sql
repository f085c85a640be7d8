-- Transactions that are not final.
SELECT txn_id::text AS id, created_at AS since
FROM ledger.transactions
WHERE state = 'pending'
