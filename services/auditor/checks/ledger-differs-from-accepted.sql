-- Ledger rows of another kind, partner, payment, amount or currency than their request. A refund
-- has its payment's currency, and an amount that the request may leave open.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
JOIN auditor.accepted USING (txn_id, fingerprint)
WHERE (transactions.kind, transactions.partner_id, transactions.payment_id)
    IS DISTINCT FROM (accepted.kind, accepted.partner_id, accepted.payment_id)
  OR CASE transactions.kind
    WHEN 'refund' THEN
      transactions.requested_amount IS DISTINCT FROM accepted.amount
      OR transactions.amount <> accepted.amount
    ELSE
      (transactions.currency, transactions.amount)
        IS DISTINCT FROM (accepted.currency, accepted.amount)
  END
