-- Events that the notifier applied and that are not in the outbox, or not with these bytes.
SELECT inbox.event_id::text AS id, inbox.received_at AS since
FROM notifier.inbox
LEFT JOIN ledger.outbox USING (event_id)
WHERE outbox.event_id IS NULL
  OR inbox.payload_hash <> encode(sha256(convert_to(outbox.payload, 'UTF8')), 'hex')
ORDER BY since LIMIT 100
