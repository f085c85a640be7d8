-- Stores the provider's intent on a pending payment, before anybody confirms it.
--
-- $1 id, $2 the version that was read, $3 provider, $4 the intent's id.
-- A row: it is stored, with the version the payment has now. No row: the payment is final, of
-- another version, or has an intent already; this one must never be confirmed.
UPDATE ledger.transactions
SET provider = $3, provider_intent_id = $4, version = version + 1
WHERE txn_id = $1 AND version = $2 AND state = 'pending' AND kind = 'payment'
  AND provider_intent_id IS NULL
RETURNING version
