-- Makes pending payments final and takes the next sequence of each, under their rows' locks.
--
-- $1 ids, each once, $2 the versions that were read, $3 the final states, $4 failure codes,
-- $5 failure messages, $6 when they were settled, $7 the provider's ids of the charges or nulls,
-- $8 what was captured or nulls; all of one length.
-- A row: a payment as it is now; its entry and event must follow in the same transaction.
-- No row: it is final, of another version, or another transaction holds it, and nothing was
-- written. Whoever has to know which takes the row's lock first.
WITH asked AS (
  SELECT * FROM unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
    $8::bigint[]
  ) AS asked (txn_id, version, state, code, message, settled_at, charge_id, captured)
), free AS MATERIALIZED (
  SELECT txn_id FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ledger.transactions AS payment SET
  state = asked.state,
  failure_code = asked.code,
  failure_message = asked.message,
  settled_at = asked.settled_at,
  provider_charge_id = asked.charge_id,
  amount_captured = asked.captured,
  next_action = NULL,
  due_at = NULL,
  version = payment.version + 1,
  events = payment.events + 1
FROM asked JOIN free USING (txn_id)
WHERE payment.txn_id = asked.txn_id AND payment.version = asked.version
  AND payment.settled_at IS NULL AND payment.payment_id IS NULL
RETURNING
  payment.txn_id, payment.kind, payment.partner_id, payment.idempotency_key,
  encode(payment.fingerprint, 'hex') AS fingerprint, payment.response_version, payment.amount,
  payment.currency, payment.payment_method, payment.reference, payment.details,
  payment.created_at, payment.state, payment.version, payment.events, payment.failure_code,
  payment.failure_message, payment.settled_at, payment.amount_refunded,
  payment.action_expires_at, payment.next_action, payment.authorized_at, payment.provider,
  payment.provider_intent_id, payment.provider_charge_id, payment.closed_by,
  payment.amount_captured
