-- Finds the transactions that the copy has otherwise than another store says, after copying them.
--
-- $1 a JSON array of the store's rows. A row: the id of one that it says something of which its
-- history in the copy does not allow. When a row is due is no part of its history.
SELECT known.txn_id::text AS id
FROM json_to_recordset($1::json) AS told (
  txn_id uuid, kind text, partner_id text, idempotency_key text, fingerprint text,
  response_version smallint, payment_id uuid, requested_amount bigint, amount bigint, currency text,
  payment_method text, reference text, details text,
  created_at timestamptz, state text, version integer, events integer, failure_code text,
  failure_message text, settled_at timestamptz, refund_reserved bigint, amount_refunded bigint,
  provider text, provider_intent_id text, provider_charge_id text, provider_refund_id text
)
JOIN ledger.transactions AS known USING (txn_id)
WHERE (
  known.kind, known.partner_id, known.idempotency_key, encode(known.fingerprint, 'hex'),
  known.response_version, known.payment_id, known.requested_amount, known.amount, known.currency,
  known.payment_method, known.reference, known.details,
  known.created_at, known.state, known.version, known.events, known.failure_code,
  known.failure_message, known.settled_at, known.refund_reserved, known.amount_refunded,
  known.provider, known.provider_intent_id, known.provider_charge_id, known.provider_refund_id
) IS DISTINCT FROM (
  told.kind, told.partner_id, told.idempotency_key, told.fingerprint,
  told.response_version, told.payment_id, told.requested_amount, told.amount, told.currency,
  told.payment_method, told.reference, told.details,
  told.created_at, told.state, told.version, told.events, told.failure_code,
  told.failure_message, told.settled_at, told.refund_reserved, told.amount_refunded,
  told.provider, told.provider_intent_id, told.provider_charge_id, told.provider_refund_id
)
