-- Events of a settlement that tell another partner, amount, currency or end than the ledger's.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
JOIN ledger.transactions USING (txn_id)
CROSS JOIN LATERAL json_to_record(outbox.payload::json) AS event (partner_id text, data json)
CROSS JOIN LATERAL json_to_record(event.data)
  AS told (id text, status text, amount text, currency text)
WHERE outbox.event_type <> 'payment.key_conflict'
  AND (event.partner_id, told.id, told.status, told.amount, told.currency) IS DISTINCT FROM (
    transactions.partner_id,
    transactions.txn_id::text,
    transactions.state,
    transactions.amount::text,
    transactions.currency
  )
ORDER BY since LIMIT 100
