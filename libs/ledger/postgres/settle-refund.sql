-- Makes a pending refund final, counts it on its payment and takes the payment's next sequence.
--
-- $1 id, $2 the version that was read, $3 succeeded or failed, $4 failure code, $5 failure message,
-- $6 when it was settled, $7 the provider's id of the refund or null.
-- A row: it is final now; its entry and event must follow in the same transaction. `sequence` is
-- null when the partner has no such payment, and the refund is then ordered by itself.
-- No row: it was final, or is of another version, and nothing was written.
--
-- What a failed refund had reserved is given back to the payment.
WITH refund AS (
  UPDATE ledger.transactions SET
    state = $3,
    failure_code = $4,
    failure_message = $5,
    settled_at = $6,
    provider_refund_id = coalesce($7, provider_refund_id),
    due_at = NULL,
    version = version + 1
  WHERE txn_id = $1 AND version = $2 AND state = 'pending' AND kind = 'refund'
  RETURNING partner_id, payment_id, amount
), payment AS (
  UPDATE ledger.transactions AS target SET
    amount_refunded = target.amount_refunded + CASE $3 WHEN 'succeeded' THEN refund.amount ELSE 0 END,
    refund_reserved =
      target.refund_reserved - CASE $3 WHEN 'failed' THEN coalesce(refund.amount, 0) ELSE 0 END,
    events = target.events + 1,
    version = target.version + 1
  FROM refund
  WHERE target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
    AND target.kind = 'payment'
  RETURNING target.events
)
SELECT payment.events AS sequence FROM refund LEFT JOIN payment ON true
