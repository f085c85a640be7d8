-- Events of a settlement that tell another partner, amount, currency or end than the ledger's.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
JOIN ledger.transactions USING (txn_id)
CROSS JOIN LATERAL (SELECT outbox.payload::json AS event) AS told
WHERE outbox.event_type <> 'payment.key_conflict'
  AND (
    told.event ->> 'partner_id',
    told.event -> 'data' ->> 'id',
    told.event -> 'data' ->> 'status',
    told.event -> 'data' ->> 'amount',
    told.event -> 'data' ->> 'currency'
  ) IS DISTINCT FROM (
    transactions.partner_id,
    transactions.txn_id::text,
    transactions.state,
    transactions.amount::text,
    transactions.currency
  )
ORDER BY since LIMIT 100
