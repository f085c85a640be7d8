-- Reads one page of a payment's refunds, newest first.
--
-- $1 payment id, $2 partner id, $3 rows at most, $4 and $5 the time and id of the refund after
-- which the page begins, or null.
-- A row: a refund, with the charge that it is of. Fewer rows than $3: the list ends here.
SELECT
  refund.txn_id, refund.partner_id, refund.idempotency_key,
  encode(refund.fingerprint, 'hex') AS fingerprint, refund.response_version, refund.payment_id,
  refund.requested_amount, refund.reason, refund.amount, refund.currency, refund.created_at,
  refund.state, refund.version, refund.failure_code, refund.failure_message, refund.settled_at,
  refund.provider_refund_id, payment.provider, payment.provider_intent_id,
  payment.provider_charge_id
FROM ledger.transactions AS refund
LEFT JOIN ledger.transactions AS payment
  ON payment.txn_id = refund.payment_id AND payment.partner_id = refund.partner_id
WHERE refund.payment_id = $1 AND refund.partner_id = $2 AND refund.kind = 'refund'
  AND ($4::timestamptz IS NULL OR (refund.created_at, refund.txn_id) < ($4, $5::uuid))
ORDER BY refund.created_at DESC, refund.txn_id DESC
LIMIT $3
