-- Makes pending payments final and takes the next sequence of each, under their rows' locks.
--
-- $1 ids, each once, $2 the versions that were read, $3 the final states, $4 failure codes,
-- $5 failure messages, $6 when they were settled, $7 the provider's ids of the charges or nulls,
-- $8 what was captured or nulls, $9 providers and $10 intents where the rows have none, or nulls;
-- all of one length.
-- A row: a payment as it is now; its entry and event must follow in the same transaction.
-- Where another end was told before this database was set back (ledger.told), that end is written,
-- with its time; its event has its number, and is in the outbox. So are steps before it that were
-- told, and which capture or cancellation it was that is known to have ended it.
-- No row: it is final, of another version, has another intent or is another provider's, or another
-- transaction holds it, and nothing was written. Whoever has to know which takes the row's lock
-- first.
WITH asked AS (
  SELECT * FROM unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
    $8::bigint[], $9::text[], $10::text[]
  ) AS asked (
    txn_id, version, state, code, message, settled_at, charge_id, captured, provider, intent_id
  )
), free AS MATERIALIZED (
  SELECT txn_id FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ledger.transactions AS payment SET
  state = coalesce(told.state, asked.state),
  failure_code = CASE WHEN told.state IS NULL THEN asked.code ELSE told.failure_code END,
  failure_message = CASE WHEN told.state IS NULL THEN asked.message ELSE told.failure_message END,
  settled_at = coalesce(told.happened_at, asked.settled_at),
  provider_charge_id = CASE WHEN told.state IS NULL THEN asked.charge_id
    ELSE coalesce(told.charge_id, asked.charge_id) END,
  amount_captured = CASE WHEN told.state IS NULL THEN asked.captured
    WHEN told.state = 'captured' THEN told.amount END,
  provider = coalesce(payment.provider, asked.provider),
  provider_intent_id = coalesce(payment.provider_intent_id, asked.intent_id),
  action_expires_at = coalesce(payment.action_expires_at, (
    SELECT before.action_expires_at FROM ledger.told AS before
    WHERE before.txn_id = payment.txn_id AND before.adopted_at IS NULL
      AND before.event_type = 'payment.requires_action'
  )),
  authorized_at = coalesce(payment.authorized_at, (
    SELECT before.happened_at FROM ledger.told AS before
    WHERE before.txn_id = payment.txn_id AND before.adopted_at IS NULL
      AND before.event_type = 'payment.authorized'
  )),
  closed_by = CASE
    WHEN coalesce(told.state, asked.state) IN ('captured', 'canceled')
      THEN coalesce(payment.closed_by, (
        SELECT closing.txn_id FROM ledger.told AS closing
        WHERE closing.payment_id = payment.txn_id AND closing.adopted_at IS NULL
          AND closing.event_type IN ('capture.succeeded', 'cancellation.succeeded')
      ))
    ELSE payment.closed_by
  END,
  next_action = NULL,
  due_at = NULL,
  version = payment.version + 1,
  events = payment.events + CASE WHEN told.state IS NULL THEN 1 ELSE 0 END
FROM asked JOIN free USING (txn_id)
LEFT JOIN ledger.told
  ON told.txn_id = asked.txn_id AND told.state IS NOT NULL AND told.adopted_at IS NULL
WHERE payment.txn_id = asked.txn_id AND payment.version = asked.version
  AND payment.settled_at IS NULL AND payment.payment_id IS NULL
  AND (
    asked.intent_id IS NULL
    OR payment.provider_intent_id IS NULL
      AND coalesce(payment.provider, asked.provider) = asked.provider
  )
RETURNING payment.:payment
