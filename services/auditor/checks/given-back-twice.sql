-- Refunds that the provider made more than once.
SELECT txn_id::text AS id, max(created_at) AS since
FROM auditor.refunds
WHERE status <> 'failed' AND txn_id IS NOT NULL
GROUP BY txn_id
HAVING count(*) > 1
