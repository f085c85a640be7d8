-- Charges of ours, tried ones included, of an intent that no payment names: its id is stored before
-- it is confirmed.
SELECT charges.id, charges.created_at AS since
FROM auditor.charges
WHERE charges.txn_id IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.txn_id = charges.txn_id
      AND transactions.kind = 'payment'
      AND transactions.provider_intent_id = charges.intent_id
  )
