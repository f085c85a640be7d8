-- Ledger rows of another partner, amount or currency than their request.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
JOIN auditor.accepted USING (txn_id, fingerprint)
WHERE (transactions.partner_id, transactions.currency, transactions.amount)
  IS DISTINCT FROM (accepted.partner_id, accepted.currency, accepted.amount)
