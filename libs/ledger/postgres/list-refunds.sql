-- Reads a payment's refunds, oldest first.
--
-- $1 payment id, $2 partner id, $3 rows at most.
-- A row: a refund, with the charge that it is of. No row: the partner has none of that payment.
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
ORDER BY refund.created_at, refund.txn_id
LIMIT $3
