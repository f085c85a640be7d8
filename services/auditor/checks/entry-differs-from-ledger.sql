-- Transactions that moved other money than they say: one that succeeded moves its amount once, into
-- the partner's payable funds or, for a refund, back to where its payment's came from, and any
-- other moves nothing. A transaction has one entry at most.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
LEFT JOIN ledger.entries USING (txn_id)
LEFT JOIN ledger.entries AS paid ON paid.txn_id = transactions.payment_id
WHERE (entries.txn_id IS NOT NULL) <> (transactions.state = 'succeeded')
  OR entries.txn_id IS NOT NULL AND (
    entries.amount, entries.currency, entries.debit_account, entries.credit_account
  ) IS DISTINCT FROM (
    transactions.amount,
    transactions.currency,
    CASE transactions.kind
      WHEN 'refund' THEN paid.credit_account
      ELSE coalesce('provider.' || transactions.provider, transactions.partner_id) || ':clearing'
    END,
    CASE transactions.kind
      WHEN 'refund' THEN paid.debit_account
      ELSE transactions.partner_id || ':payable'
    END
  )
