-- Transactions that are not final and are for the workers alone to finish.
SELECT txn_id::text AS id, created_at AS since
FROM ledger.transactions
WHERE state = 'pending'
  AND NOT EXISTS (
    SELECT FROM auditor.waiting_outside WHERE waiting_outside.txn_id = transactions.txn_id
  )
