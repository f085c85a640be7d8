-- Transactions that were charged more than once: there is never a second successful charge.
SELECT txn_id::text AS id, max(created_at) AS since
FROM auditor.charges
WHERE status = 'succeeded'
GROUP BY txn_id
HAVING count(*) > 1
