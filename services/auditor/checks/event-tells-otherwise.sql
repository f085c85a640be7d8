-- Events of a settlement that tell another partner, amount, currency or end than the ledger's.
--
-- Nearly always the text alone shows that they agree: within a string JSON escapes every quotation
-- mark, so what is looked for here stands nowhere else. Only where it is not found the event is read.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
JOIN ledger.transactions USING (txn_id)
WHERE outbox.event_type <> 'payment.key_conflict'
  AND CASE
    WHEN strpos(outbox.payload, concat(',"partner_id":"', transactions.partner_id, '","txn_id":"')) > 0
      AND strpos(outbox.payload, concat(
        ',"data":{"id":"', transactions.txn_id, '","object":"', transactions.kind,
        '","status":"', transactions.state, '","amount":', transactions.amount,
        ',"currency":"', transactions.currency, '",'
      )) > 0
    THEN false
    ELSE (
      outbox.payload::json ->> 'partner_id',
      outbox.payload::json -> 'data' ->> 'id',
      outbox.payload::json -> 'data' ->> 'status',
      outbox.payload::json -> 'data' ->> 'amount',
      outbox.payload::json -> 'data' ->> 'currency'
    ) IS DISTINCT FROM (
      transactions.partner_id,
      transactions.txn_id::text,
      transactions.state,
      transactions.amount::text,
      transactions.currency
    )
  END
