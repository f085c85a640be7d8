-- Payments that hold another amount for refunds, or say another was given back, than their refunds
-- come to; and those of which more is given back than was paid.
SELECT payments.txn_id::text AS id, payments.created_at AS since
FROM ledger.transactions AS payments
LEFT JOIN (
  SELECT payment_id, partner_id, currency,
         sum(amount) FILTER (WHERE state <> 'failed') AS reserved,
         sum(amount) FILTER (WHERE state = 'succeeded') AS refunded
  FROM ledger.transactions
  WHERE kind = 'refund' AND amount IS NOT NULL
  GROUP BY payment_id, partner_id, currency
) AS refunds ON refunds.payment_id = payments.txn_id
  AND refunds.partner_id = payments.partner_id
  AND refunds.currency = payments.currency
WHERE payments.kind = 'payment' AND (
  payments.refund_reserved <> coalesce(refunds.reserved, 0)
  OR payments.amount_refunded <> coalesce(refunds.refunded, 0)
  OR payments.refund_reserved > CASE payments.state WHEN 'succeeded' THEN payments.amount ELSE 0 END
)
