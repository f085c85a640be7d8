-- Payments whose events, those of their refunds included, are not numbered 1, 2, 3, … without a gap
-- or a repeat. Those that left the outbox by age are known to the auditor from when they were
-- published.
WITH broken AS MATERIALIZED (
  SELECT payment_id, min(created_at) AS since, max(sequence) AS newest
  FROM ledger.outbox
  WHERE sequence IS NOT NULL
  GROUP BY payment_id
  HAVING max(sequence) <> count(*) OR count(DISTINCT sequence) <> count(*)
), told AS (
  SELECT payment_id, sequence FROM broken JOIN ledger.outbox USING (payment_id)
  WHERE sequence IS NOT NULL
  UNION ALL
  SELECT payment_id, sequence FROM broken JOIN auditor.published USING (payment_id)
  WHERE sequence IS NOT NULL
    AND NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = published.event_id)
    AND auditor.left_outbox(txn_id, event_type, event_id)
)
SELECT payment_id::text AS id, since
FROM broken JOIN told USING (payment_id)
GROUP BY payment_id, since, newest
HAVING count(*) <> newest OR count(DISTINCT sequence) <> newest
