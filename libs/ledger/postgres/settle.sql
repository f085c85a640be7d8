-- Makes a pending transaction final and takes its next sequence, under the row's lock.
--
-- $1 id, $2 the version that was read, $3 the final state, $4 failure code, $5 failure message,
-- $6 when it was settled, $7 the provider's id of the charge or null, $8 what was captured or null.
-- A row: the transaction as it is now; its entry and event must follow in the same transaction.
-- No row: it is final, or of another version, and nothing was written.
UPDATE ledger.transactions SET
  state = $3,
  failure_code = $4,
  failure_message = $5,
  settled_at = $6,
  provider_charge_id = $7,
  amount_captured = $8,
  next_action = NULL,
  due_at = NULL,
  version = version + 1,
  events = events + 1
WHERE txn_id = $1 AND version = $2 AND state = 'pending' AND payment_id IS NULL
RETURNING
  txn_id, kind, partner_id, idempotency_key, encode(fingerprint, 'hex') AS fingerprint,
  response_version, amount, currency, payment_method, reference, details, created_at,
  state, version, events, failure_code, failure_message, settled_at, amount_refunded,
  action_expires_at, next_action, authorized_at, provider, provider_intent_id, provider_charge_id,
  closed_by, amount_captured
