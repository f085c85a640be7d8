-- What the provider has of a payment that has ended.

-- name: readPayment
-- A payment that a provider charges, and every intent of it there.
--
-- $1 its id. A row: it is such a payment of the ledger; `intents` are the one that it names and
-- those that the provider's lists showed of it. No row: it is none.
SELECT txn_id AS "txnId", provider, partner_id AS "partnerId", state, amount, currency,
       provider_intent_id AS "intentId", array(
         SELECT provider_intent_id WHERE provider_intent_id IS NOT NULL
         UNION
         SELECT id FROM auditor.intents
         WHERE intents.txn_id = $1 AND intents.provider = transactions.provider
         ORDER BY 1
       ) AS intents
FROM ledger.transactions
WHERE txn_id = $1 AND kind = 'payment' AND payment_method IS NOT NULL
