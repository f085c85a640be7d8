-- Brings transactions of the copy up to what another store says.
--
-- $1 a JSON array of rows. A row: it was inserted or changed now. No row for an id: it is so
-- already, or its history does not allow what the store says; find-different-transactions.sql tells
-- which.
INSERT INTO ledger.transactions AS known (
  txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, payment_id,
  requested_amount, amount, currency, payment_method, reference, details,
  created_at, state, version, events, failure_code, failure_message, settled_at, refund_reserved,
  amount_refunded, provider, provider_intent_id, provider_charge_id, provider_refund_id, due_at,
  traceparent
)
SELECT
  txn_id, kind, partner_id, idempotency_key, decode(fingerprint, 'hex'), response_version, payment_id,
  requested_amount, amount, currency, payment_method, reference, details,
  created_at, state, version, events, failure_code, failure_message, settled_at, refund_reserved,
  amount_refunded, provider, provider_intent_id, provider_charge_id, provider_refund_id, due_at,
  traceparent
FROM json_to_recordset($1::json) AS row (
  txn_id uuid, kind text, partner_id text, idempotency_key text, fingerprint text,
  response_version smallint, payment_id uuid, requested_amount bigint, amount bigint, currency text,
  payment_method text, reference text, details text,
  created_at timestamptz, state text, version integer, events integer, failure_code text,
  failure_message text, settled_at timestamptz, refund_reserved bigint, amount_refunded bigint,
  provider text, provider_intent_id text, provider_charge_id text, provider_refund_id text,
  due_at timestamptz, traceparent text
)
ORDER BY txn_id
ON CONFLICT (txn_id) DO UPDATE SET
  amount = excluded.amount, currency = excluded.currency, state = excluded.state,
  version = excluded.version, events = excluded.events, failure_code = excluded.failure_code,
  failure_message = excluded.failure_message, settled_at = excluded.settled_at,
  refund_reserved = excluded.refund_reserved, amount_refunded = excluded.amount_refunded,
  provider = excluded.provider, provider_intent_id = excluded.provider_intent_id,
  provider_charge_id = excluded.provider_charge_id,
  provider_refund_id = excluded.provider_refund_id, due_at = excluded.due_at
WHERE excluded.version > known.version
  AND excluded.events >= known.events
  AND (known.amount IS NULL
    OR (known.amount, known.currency) IS NOT DISTINCT FROM (excluded.amount, excluded.currency))
  AND (known.provider_intent_id IS NULL
    OR (known.provider, known.provider_intent_id)
      IS NOT DISTINCT FROM (excluded.provider, excluded.provider_intent_id))
  AND (known.state = 'pending' OR (
    known.state, known.settled_at, known.failure_code, known.failure_message,
    known.provider, known.provider_intent_id, known.provider_charge_id, known.provider_refund_id
  ) IS NOT DISTINCT FROM (
    excluded.state, excluded.settled_at, excluded.failure_code, excluded.failure_message,
    excluded.provider, excluded.provider_intent_id, excluded.provider_charge_id,
    excluded.provider_refund_id
  ))
RETURNING txn_id
