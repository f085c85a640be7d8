-- Transactions that are not final because a customer, a bank or the provider has yet to do
-- something.
SELECT txn_id::text AS id, created_at AS since
FROM auditor.waiting_outside
WHERE NOT EXISTS (
  SELECT FROM ledger.transactions AS accepted
  WHERE accepted.txn_id = waiting_outside.txn_id AND accepted.provider_refund_id IS NOT NULL
)
