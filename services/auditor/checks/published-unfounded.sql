-- Events that were published, are not in the outbox, and did not leave it by age: somebody else
-- speaks in our name.
SELECT published.event_id::text AS id, published.first_seen AS since
FROM auditor.published
WHERE NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = published.event_id)
  AND NOT auditor.left_outbox(published.txn_id, published.event_type, published.event_id)
ORDER BY since LIMIT 100
