-- Refunds of cards that ended otherwise at the provider than in the ledger: one that succeeded gave
-- money back there, and of one that failed none went back.
SELECT booked.txn_id::text AS id, booked.settled_at AS since
FROM ledger.transactions AS booked
JOIN ledger.transactions AS payments ON payments.txn_id = booked.payment_id
WHERE booked.kind = 'refund' AND booked.state <> 'pending' AND payments.payment_method IS NOT NULL
  AND (booked.state = 'succeeded') <> EXISTS (
    SELECT FROM auditor.refunds
    WHERE refunds.txn_id = booked.txn_id
      AND (refunds.status = 'succeeded' OR booked.state = 'failed' AND refunds.status = 'pending')
  )
