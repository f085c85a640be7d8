-- Reserves a pending refund's amount on its payment, once, when it fits.
--
-- $1 the refund's id.
-- A row: `decision` is `reserved` (now or before), `waiting` (its payment is pending, or not there
-- and may still come), or why it can never be given back: `payment_not_refundable`,
-- `amount_exceeds_refundable`. No row: the refund is final.
--
-- The refund is locked before its payment, here and in settle-refund.sql. Under READ COMMITTED both
-- locked rows are the newest, so of refunds racing on one payment each sees what the others
-- reserved, and the cap is compared once more by the update and by the table's own check. A payment
-- that is not there a day after its refund was accepted was set aside and will not come by itself.
-- Until then the refund is looked at again after a quarter of its age, a second at least and a
-- minute at most: the statement that posts a batch of payments does not look for their refunds. A
-- payment that is pending wakes its refunds when it is settled.
WITH refund AS MATERIALIZED (
  SELECT partner_id, payment_id, requested_amount, amount, created_at FROM ledger.transactions
  WHERE txn_id = $1 AND kind = 'refund' AND state = 'pending'
  FOR NO KEY UPDATE
), payment AS MATERIALIZED (
  SELECT target.txn_id, target.state, target.amount, target.currency, target.refund_reserved
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
      WHEN payment.state IS DISTINCT FROM 'succeeded' THEN 'payment_not_refundable'
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
    AND target.refund_reserved + judged.amount <= target.amount
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
