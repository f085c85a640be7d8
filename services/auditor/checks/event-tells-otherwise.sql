-- Events of a settlement that have another partner, payment, amount, currency or end than the
-- ledger's.
--
-- Nearly always the text alone shows that they agree: within a string JSON escapes every quotation
-- mark, so what is looked for here stands nowhere else. Only where it is not found the event is
-- read.
--
-- A refund that failed may have the amount that was asked for, and of no currency; where its
-- partner has no such payment it is ordered by itself.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
JOIN ledger.transactions USING (txn_id)
WHERE outbox.event_type <> 'payment.key_conflict' AND (
  outbox.payment_id <> transactions.txn_id
    AND outbox.payment_id IS DISTINCT FROM transactions.payment_id
  OR CASE
    WHEN strpos(outbox.payload, concat(',"partner_id":"', transactions.partner_id, '","txn_id":"')) > 0
      AND strpos(outbox.payload, concat(
        ',"data":{"id":"', transactions.txn_id, '","object":"', transactions.kind,
        CASE transactions.kind WHEN 'refund' THEN concat('","payment":"', transactions.payment_id) END,
        '","status":"', transactions.state, '","amount":', transactions.amount,
        ',"currency":"', transactions.currency, '",'
      )) > 0
    THEN false
    ELSE (
      outbox.payload::json ->> 'partner_id',
      outbox.payload::json -> 'data' ->> 'id',
      outbox.payload::json -> 'data' ->> 'payment',
      outbox.payload::json -> 'data' ->> 'status',
      outbox.payload::json -> 'data' ->> 'amount',
      outbox.payload::json -> 'data' ->> 'currency'
    ) IS DISTINCT FROM (
      transactions.partner_id,
      transactions.txn_id::text,
      transactions.payment_id::text,
      transactions.state,
      coalesce(transactions.amount, transactions.requested_amount)::text,
      transactions.currency
    )
  END
)
