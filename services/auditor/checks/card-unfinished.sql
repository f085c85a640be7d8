-- Transactions that are not final because a customer, a bank or the provider has yet to do
-- something.
SELECT txn_id::text AS id, created_at AS since
FROM auditor.waiting_outside
