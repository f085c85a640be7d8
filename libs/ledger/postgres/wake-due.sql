-- Remembers an event of the provider and lets the pending transactions be due that it is about.
--
-- $1 provider, $2 event id, $3 event type, $4 the intent's id, $5 milliseconds until they are due.
-- Always one row. `waits`: there is such a transaction; otherwise nothing was written. `remembered`
-- is false for an event that came before, and then nothing was written either. `woken`: the ids of
-- those that are due by then; their version stays, so a worker that is at one goes on.
--
-- A refund is woken only once it is reserved: before, the provider was not asked for it.
-- Refunds are locked before their payment and in the order of their ids, as everywhere, so that no
-- two statements wait for each other. A second event with the same id waits at the insert until the
-- first one's transaction ends.
WITH payment AS (
  SELECT txn_id FROM ledger.transactions WHERE provider_intent_id = $4::text AND provider = $1::text
), waiting AS MATERIALIZED (
  SELECT txn_id FROM ledger.transactions
  WHERE state = 'pending' AND txn_id IN (
    SELECT txn_id FROM payment
    UNION ALL
    SELECT refund.txn_id FROM ledger.transactions AS refund
    JOIN payment ON refund.payment_id = payment.txn_id
    WHERE refund.kind = 'refund' AND refund.amount IS NOT NULL
  )
  ORDER BY kind DESC, txn_id
  FOR NO KEY UPDATE
), remembered AS (
  INSERT INTO ledger.provider_events (provider, event_id, event_type, intent_id)
  SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM waiting)
  ON CONFLICT DO NOTHING
  RETURNING event_id
), woken AS (
  UPDATE ledger.transactions AS target
  SET due_at = least(target.due_at, now() + $5::integer * interval '1 millisecond')
  FROM waiting, remembered
  WHERE target.txn_id = waiting.txn_id AND target.state = 'pending'
  RETURNING target.txn_id
)
SELECT
  EXISTS (SELECT FROM waiting) AS waits,
  EXISTS (SELECT FROM remembered) AS remembered,
  ARRAY(SELECT txn_id FROM woken) AS woken
