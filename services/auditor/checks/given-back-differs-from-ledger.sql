-- Refunds at the provider of another amount, currency or partner than the ledger's.
SELECT refunds.id, refunds.created_at AS since
FROM auditor.refunds
JOIN ledger.transactions USING (txn_id)
WHERE refunds.status <> 'failed'
  AND (refunds.amount, refunds.currency, refunds.partner_id)
    IS DISTINCT FROM (transactions.amount, transactions.currency, transactions.partner_id)
