-- What of the provider's does not agree with the ledger only because it has changed since it was
-- listed, or was left out: it is asked about by its id before anybody calls it drift.
--
-- $1 rows at most.
-- A row: kind and id of one to ask about.
SELECT kind, id FROM (
  -- Charges of payments that succeeded, and that nobody has seen succeed.
  SELECT 'charge' AS kind, provider_charge_id AS id, settled_at AS since
  FROM ledger.transactions
  WHERE kind = 'payment' AND state = 'succeeded' AND provider_charge_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM auditor.charges
                    WHERE charges.id = provider_charge_id AND charges.status = 'succeeded')
  UNION ALL
  -- Refunds that ended otherwise than what was seen of them.
  SELECT 'refund', provider_refund_id, settled_at
  FROM ledger.transactions
  WHERE kind = 'refund' AND state <> 'pending' AND provider_refund_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM auditor.refunds
                    WHERE refunds.id = provider_refund_id AND refunds.status = state)
  UNION ALL
  -- Charges under way of payments that failed.
  SELECT 'charge', charges.id, charges.created_at
  FROM auditor.charges JOIN ledger.transactions USING (txn_id)
  WHERE charges.status = 'pending' AND transactions.state = 'failed'
  UNION ALL
  -- Intents that no row names: whoever made one may have died, but nobody may confirm it.
  SELECT 'intent', intents.id, intents.created_at
  FROM auditor.intents
  WHERE intents.status IN ('unconfirmed', 'pending')
    AND NOT EXISTS (SELECT FROM ledger.transactions
                    WHERE transactions.txn_id = intents.txn_id
                      AND transactions.provider_intent_id = intents.id)
) AS doubtful
ORDER BY since DESC
LIMIT $1
