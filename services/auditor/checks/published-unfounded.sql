-- Events that were published, are not in the outbox, and did not leave it by age: somebody else
-- speaks in our name.
WITH missing AS MATERIALIZED (
  -- Few, and only these are worth a closer look.
  SELECT event_id, event_type, txn_id, first_seen
  FROM auditor.published
  WHERE NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = published.event_id)
)
SELECT event_id::text AS id, first_seen AS since
FROM missing
WHERE NOT auditor.left_outbox(txn_id, event_type, event_id)
