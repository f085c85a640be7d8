-- Card payments that succeeded and of which the provider has no successful charge.
SELECT txn_id::text AS id, settled_at AS since
FROM ledger.transactions
WHERE kind = 'payment' AND state = 'succeeded' AND payment_method IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM auditor.charges
    WHERE charges.txn_id = transactions.txn_id AND charges.status = 'succeeded'
  )
