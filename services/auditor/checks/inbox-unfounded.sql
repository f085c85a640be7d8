-- Events that the notifier applied and that are not in the outbox, or with other bytes than the
-- auditor received. One that left the outbox by age was seen by the auditor.
SELECT inbox.event_id::text AS id, inbox.received_at AS since
FROM notifier.inbox
LEFT JOIN ledger.outbox USING (event_id)
LEFT JOIN auditor.published USING (event_id)
WHERE inbox.payload_hash <> published.payload_hash
  OR outbox.event_id IS NULL
    AND NOT auditor.left_outbox(published.txn_id, published.event_type, event_id)
