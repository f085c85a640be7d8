-- Reads one payment.
--
-- $1 id.
-- A row: the payment as the ledger holds it. No row: the ledger does not know the id.
SELECT
  txn_id, partner_id, idempotency_key, encode(fingerprint, 'hex') AS fingerprint,
  response_version, amount, currency, payment_method, reference, description, metadata, created_at,
  state, version, events, failure_code, failure_message, settled_at, amount_refunded,
  provider, provider_intent_id, provider_charge_id
FROM ledger.transactions
WHERE txn_id = $1 AND kind = 'payment'
