-- Refunds of our charges at the provider that are none of the ledger's: made by hand, or of another
-- payment's charge.
SELECT refunds.id, refunds.created_at AS since
FROM auditor.refunds
WHERE refunds.status <> 'failed'
  AND NOT EXISTS (
    SELECT FROM ledger.transactions AS booked
    JOIN ledger.transactions AS payments ON payments.txn_id = booked.payment_id
    WHERE booked.txn_id = refunds.txn_id
      AND booked.kind = 'refund'
      AND payments.provider_intent_id = refunds.intent_id
  )
