-- Events that were published and are not in the outbox: somebody else speaks in our name.
SELECT published.event_id::text AS id, published.first_seen AS since
FROM auditor.published
WHERE NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = published.event_id)
ORDER BY since LIMIT 100
