-- Events that the notifier applied and that are not in the outbox, or with other bytes than the
-- auditor received.
SELECT inbox.event_id::text AS id, inbox.received_at AS since
FROM notifier.inbox
LEFT JOIN ledger.outbox USING (event_id)
LEFT JOIN auditor.published USING (event_id)
WHERE outbox.event_id IS NULL OR inbox.payload_hash <> published.payload_hash
ORDER BY since LIMIT 100
