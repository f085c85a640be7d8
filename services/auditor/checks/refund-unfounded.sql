-- Refunds that hold or gave back money of no payment of their partner and currency that succeeded.
SELECT refunds.txn_id::text AS id, refunds.created_at AS since
FROM ledger.transactions AS refunds
WHERE refunds.kind = 'refund' AND refunds.state <> 'failed' AND refunds.amount IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM ledger.transactions AS payments
    WHERE payments.txn_id = refunds.payment_id
      AND payments.kind = 'payment'
      AND payments.state = 'succeeded'
      AND payments.partner_id = refunds.partner_id
      AND payments.currency = refunds.currency
  )
