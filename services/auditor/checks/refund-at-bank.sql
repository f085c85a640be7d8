-- Refunds that the provider has accepted and a bank has yet to carry out.
SELECT txn_id::text AS id, created_at AS since
FROM ledger.transactions
WHERE state = 'pending' AND provider_refund_id IS NOT NULL
