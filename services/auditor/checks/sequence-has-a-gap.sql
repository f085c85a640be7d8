-- Payments whose events are not numbered 1, 2, 3, …
SELECT payment_id::text AS id, min(created_at) AS since
FROM ledger.outbox
WHERE sequence IS NOT NULL
GROUP BY payment_id
HAVING max(sequence) <> count(*)
ORDER BY since LIMIT 100
