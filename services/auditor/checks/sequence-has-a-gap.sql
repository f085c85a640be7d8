-- Payments whose events are not numbered 1, 2, 3, … Those that left the outbox by age are known to
-- the auditor from when they were published.
WITH broken AS MATERIALIZED (
  SELECT payment_id, min(created_at) AS since, max(sequence) AS newest, count(*) AS events
  FROM ledger.outbox
  WHERE sequence IS NOT NULL
  GROUP BY payment_id
  HAVING max(sequence) <> count(*)
), reaped AS (
  SELECT payment_id, count(*) AS events
  FROM auditor.published
  WHERE payment_id IN (SELECT payment_id FROM broken)
    AND sequence IS NOT NULL
    AND NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = published.event_id)
    AND auditor.left_outbox(txn_id, event_type, event_id)
  GROUP BY payment_id
)
SELECT payment_id::text AS id, since
FROM broken
LEFT JOIN reaped USING (payment_id)
WHERE broken.events + coalesce(reaped.events, 0) <> newest
