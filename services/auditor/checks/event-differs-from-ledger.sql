-- Final transactions without their event, and events of a settlement without their transaction, or
-- under an id that does not follow from it. An event that left the outbox by age was seen by the
-- auditor when it was published.
SELECT txn_id::text AS id, coalesce(settled.settled_at, events.created_at) AS since
FROM (
  SELECT txn_id, partner_id, settled_at, kind || '.' || state AS event_type,
         auditor.derive_id('event', txn_id::text, kind || '.' || state) AS event_id
  FROM ledger.transactions
  WHERE state <> 'pending'
) AS settled
FULL JOIN (
  SELECT txn_id, partner_id, created_at, event_type, event_id
  FROM ledger.outbox
  WHERE event_type <> 'payment.key_conflict'
) AS events USING (event_id, event_type, txn_id, partner_id)
LEFT JOIN auditor.published USING (event_id, event_type, txn_id, partner_id)
WHERE settled.settled_at IS NULL
  OR events.created_at IS NULL AND (
    published.first_seen IS NULL OR NOT auditor.left_outbox(txn_id, event_type, event_id)
  )
