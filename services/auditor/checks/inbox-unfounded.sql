-- Events that a consumer applied and that are not in the outbox, or with other bytes than the
-- auditor received. One that left the outbox by age was seen by the auditor.
SELECT event_id::text AS id, min(inbox.received_at) AS since
FROM (
  SELECT event_id, payload_hash, received_at FROM notifier.inbox
  UNION ALL
  SELECT event_id, payload_hash, received_at FROM settlement.inbox
) AS inbox
LEFT JOIN ledger.outbox USING (event_id)
LEFT JOIN auditor.published USING (event_id)
WHERE inbox.payload_hash <> published.payload_hash
  OR outbox.event_id IS NULL
    AND NOT auditor.left_outbox(published.txn_id, published.event_type, event_id)
GROUP BY event_id
