-- Charges that took another amount, currency or partner's money than the payment says, are another
-- charge than it names, or are of one that failed.
SELECT charges.id, charges.created_at AS since
FROM auditor.charges
JOIN ledger.transactions USING (txn_id)
WHERE charges.status = 'succeeded'
  AND (
    (charges.amount, charges.currency, charges.partner_id)
      IS DISTINCT FROM (transactions.amount, transactions.currency, transactions.partner_id)
    OR transactions.state = 'failed'
    OR transactions.state = 'succeeded' AND charges.id IS DISTINCT FROM transactions.provider_charge_id
  )
