-- What is done to refunds, captures and cancellations, which are rows of ledger.transactions: made,
-- reserved on their payment, given their provider's id, settled. How they are read is in
-- transactions.sql.

-- name: postFollowUp
-- Makes the row of a refund, capture or cancellation, waiting for its payment.
--
-- $1 id, $2 partner, $3 idempotency key, $4 fingerprint in hex, $5 response version, $6 payment id,
-- $7 the amount asked for or null for all that is left, $8 details as JSON text, $9 created at,
-- $10 traceparent, $11 milliseconds after which the resolver takes it up while it is pending,
-- $12 its kind.
-- A row: this statement made it. No row: its id is taken.
INSERT INTO ledger.transactions (
  txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, payment_id,
  requested_amount, details, created_at, traceparent, state, events, due_at
)
VALUES (
  $1, $12, $2, $3, decode($4, 'hex'), $5, $6, $7, $8, $9, $10, 'pending', 0,
  now() + $11::integer * interval '1 millisecond'
)
ON CONFLICT DO NOTHING
RETURNING txn_id

-- name: reserveRefund
-- Reserves a pending refund's amount on its payment, once, when it fits.
--
-- $1 the refund's id.
-- A row: `decision` is `reserved` (now or before), `waiting` (its payment is pending, or not there
-- and may still come), or why it can never be given back: `payment_not_refundable`,
-- `amount_exceeds_refundable`. No row: the refund is final.
--
-- The refund is locked before its payment, here and in settleFollowUp. Under READ COMMITTED both
-- locked rows are the newest, so of refunds racing on one payment each sees what the others
-- reserved, and the cap is compared once more by the update and by the table's own check. A payment
-- that is not there a day after its refund was accepted was set aside and will not come by itself.
-- Until then the refund is looked at again after a quarter of its age, a second at least and a
-- minute at most: the statement that posts a batch of payments does not look for their refunds. A
-- payment that is pending wakes its refunds when it is settled.
WITH refund AS MATERIALIZED (
  SELECT partner_id, payment_id, requested_amount, amount, created_at FROM ledger.transactions
  WHERE txn_id = $1 AND kind = 'refund' AND settled_at IS NULL
  FOR NO KEY UPDATE
), payment AS MATERIALIZED (
  SELECT target.txn_id, target.state, target.currency, target.refund_reserved,
         coalesce(target.amount_captured, target.amount) AS amount
  FROM ledger.transactions AS target
  JOIN refund ON target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
  WHERE target.kind = 'payment'
  FOR NO KEY UPDATE OF target
), judged AS MATERIALIZED (
  SELECT
    payment.txn_id AS payment_id, payment.currency,
    coalesce(refund.requested_amount, payment.amount - payment.refund_reserved) AS amount,
    CASE
      WHEN refund.amount IS NOT NULL THEN 'reserved'
      WHEN payment.state = 'pending' THEN 'waiting'
      WHEN payment.state IS NULL AND refund.created_at > now() - interval '1 day' THEN 'waiting'
      WHEN payment.state IS NULL OR payment.state NOT IN ('succeeded', 'captured')
        THEN 'payment_not_refundable'
      WHEN payment.refund_reserved = payment.amount
        OR payment.refund_reserved + refund.requested_amount > payment.amount
        THEN 'amount_exceeds_refundable'
      ELSE 'fits'
    END AS decision
  FROM refund LEFT JOIN payment ON true
), held AS (
  UPDATE ledger.transactions AS target
  SET refund_reserved = target.refund_reserved + judged.amount, version = target.version + 1
  FROM judged
  WHERE target.txn_id = judged.payment_id AND judged.decision = 'fits'
    AND target.refund_reserved + judged.amount <= coalesce(target.amount_captured, target.amount)
), named AS (
  UPDATE ledger.transactions AS target
  SET amount = judged.amount, currency = judged.currency, version = target.version + 1
  FROM judged
  WHERE target.txn_id = $1 AND judged.decision = 'fits'
), soon AS (
  UPDATE ledger.transactions AS target
  SET version = target.version + 1,
      due_at = now() + greatest(
        interval '1 second', least(interval '1 minute', (now() - target.created_at) / 4)
      )
  FROM judged
  WHERE target.txn_id = $1 AND judged.decision = 'waiting' AND judged.payment_id IS NULL
)
SELECT CASE decision WHEN 'fits' THEN 'reserved' ELSE decision END AS decision FROM judged

-- name: reserveClosing
-- Takes an authorised payment for the capture or cancellation that is to end it, once, when it is
-- nobody else's.
--
-- $1 its id.
-- A row: `decision` is `reserved` (now or before), `waiting` (its payment is not there and may
-- still come, is not authorised yet, or is another one's whose end is not known), or why it can
-- never be: `amount_exceeds_authorized`, `payment_already_captured`, `payment_not_authorized`, or
-- why the payment was cancelled, which is its own failure code. No row: it is final.
--
-- Locked as reserveRefund locks, so of any number at once the first one has the payment, and each
-- of the others sees it so. It lets go of it when it is settled as failed.
WITH closing AS MATERIALIZED (
  SELECT partner_id, payment_id, requested_amount, amount, created_at FROM ledger.transactions
  WHERE txn_id = $1 AND kind IN ('capture', 'cancellation') AND settled_at IS NULL
  FOR NO KEY UPDATE
), payment AS MATERIALIZED (
  SELECT target.txn_id, target.state, target.amount, target.currency, target.authorized_at,
         target.closed_by, target.failure_code
  FROM ledger.transactions AS target
  JOIN closing ON target.txn_id = closing.payment_id AND target.partner_id = closing.partner_id
  WHERE target.kind = 'payment'
  FOR NO KEY UPDATE OF target
), judged AS MATERIALIZED (
  SELECT
    payment.txn_id AS payment_id, payment.currency,
    coalesce(closing.requested_amount, payment.amount) AS amount,
    CASE
      WHEN closing.amount IS NOT NULL THEN 'reserved'
      WHEN payment.state IS NULL AND closing.created_at > now() - interval '1 day' THEN 'waiting'
      WHEN payment.state = 'captured' THEN 'payment_already_captured'
      WHEN payment.state = 'canceled' THEN payment.failure_code
      WHEN payment.state IS DISTINCT FROM 'pending' THEN 'payment_not_authorized'
      WHEN closing.requested_amount > payment.amount THEN 'amount_exceeds_authorized'
      WHEN payment.authorized_at IS NULL OR payment.closed_by IS NOT NULL THEN 'waiting'
      ELSE 'fits'
    END AS decision
  FROM closing LEFT JOIN payment ON true
), taken AS (
  UPDATE ledger.transactions AS target
  SET closed_by = $1, version = target.version + 1
  FROM judged
  WHERE target.txn_id = judged.payment_id AND judged.decision = 'fits'
    AND target.closed_by IS NULL AND target.settled_at IS NULL
), named AS (
  UPDATE ledger.transactions AS target
  SET amount = judged.amount, currency = judged.currency, version = target.version + 1
  FROM judged
  WHERE target.txn_id = $1 AND judged.decision = 'fits'
), soon AS (
  UPDATE ledger.transactions AS target
  SET version = target.version + 1,
      due_at = now() + greatest(
        interval '1 second', least(interval '1 minute', (now() - target.created_at) / 4)
      )
  FROM judged
  WHERE target.txn_id = $1 AND judged.decision = 'waiting' AND judged.payment_id IS NULL
)
SELECT CASE decision WHEN 'fits' THEN 'reserved' ELSE decision END AS decision FROM judged

-- name: settleFollowUp
-- Makes a pending refund, capture or cancellation final, counts a refund on its payment and takes
-- the payment's next sequence.
--
-- $1 id, $2 the version that was read, $3 succeeded or failed, $4 failure code, $5 failure message,
-- $6 when it was settled, $7 the provider's id of the refund or null.
-- A row: it is final now; its entry and event must follow in the same transaction. `sequence` is
-- null when the partner has no such payment, and it is then ordered by itself. `version` is the
-- payment's.
-- No row: it was final, or is of another version, and nothing was written.
--
-- What a failed refund had reserved is given back to the payment, and a failed capture or
-- cancellation lets go of it.
WITH refund AS (
  UPDATE ledger.transactions SET
    state = $3,
    failure_code = $4,
    failure_message = $5,
    settled_at = $6,
    provider_refund_id = coalesce($7, provider_refund_id),
    due_at = NULL,
    version = version + 1
  WHERE txn_id = $1 AND version = $2 AND settled_at IS NULL AND payment_id IS NOT NULL
  RETURNING kind, partner_id, payment_id, amount
), payment AS (
  UPDATE ledger.transactions AS target SET
    amount_refunded = target.amount_refunded
      + CASE WHEN $3 = 'succeeded' AND refund.kind = 'refund' THEN refund.amount ELSE 0 END,
    refund_reserved = target.refund_reserved
      - CASE WHEN $3 = 'failed' AND refund.kind = 'refund' THEN coalesce(refund.amount, 0)
         ELSE 0 END,
    closed_by = CASE WHEN $3 = 'succeeded' THEN target.closed_by
      ELSE nullif(target.closed_by, $1) END,
    events = target.events + 1,
    version = target.version + 1
  FROM refund
  WHERE target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
    AND target.kind = 'payment'
  RETURNING target.events, target.version
)
SELECT payment.events AS sequence, payment.version FROM refund LEFT JOIN payment ON true

-- name: storeRefundId
-- Stores the provider's id of a refund that the provider has yet to finish.
--
-- $1 id, $2 the version that was read, $3 the provider's id.
-- A row: it is stored, with the version the refund has now. No row: it is final, or of another
-- version.
UPDATE ledger.transactions
SET provider_refund_id = $3, version = version + 1
WHERE txn_id = $1 AND version = $2 AND settled_at IS NULL AND kind = 'refund'
RETURNING version
