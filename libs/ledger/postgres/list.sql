-- Reads one page of a partner's payments, newest first.
--
-- $1 partner id, $2 how many rows at most, $3 and $4 the time and id of the payment after which the
-- page begins, $5 a state, $6 a reference; $3 to $6 null where not wished for.
-- A row: a payment. Fewer rows than $2: the list ends here.
--
-- A page begins behind a position and not at a count, so that rows which come or go above it move
-- nothing: neither part of the position ever changes. It is sent unprepared, so that the planner
-- sees which wishes are null and takes the index of the others.
SELECT
  txn_id, partner_id, idempotency_key, encode(fingerprint, 'hex') AS fingerprint,
  response_version, amount, currency, payment_method, reference, description, metadata, created_at,
  state, version, events, failure_code, failure_message, settled_at, amount_refunded,
  provider, provider_intent_id, provider_charge_id
FROM ledger.transactions
WHERE partner_id = $1 AND kind = 'payment'
  AND ($3::timestamptz IS NULL OR (created_at, txn_id) < ($3, $4::uuid))
  AND ($5::text IS NULL OR state = $5)
  AND ($6::text IS NULL OR reference = $6)
ORDER BY created_at DESC, txn_id DESC
LIMIT $2
