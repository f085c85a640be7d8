-- Events that were published with other bytes than the outbox holds.
SELECT outbox.event_id::text AS id, published.first_seen AS since
FROM ledger.outbox
JOIN auditor.published USING (event_id)
WHERE published.payload_hash <> encode(sha256(convert_to(outbox.payload, 'UTF8')), 'hex')
