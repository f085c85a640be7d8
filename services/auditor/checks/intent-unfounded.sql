-- Intents of ours that were confirmed and that no payment names.
SELECT intents.id, intents.created_at AS since
FROM auditor.intents
WHERE intents.status IN ('pending', 'succeeded')
  AND NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.txn_id = intents.txn_id
      AND transactions.kind = 'payment'
      AND transactions.provider_intent_id = intents.id
  )
