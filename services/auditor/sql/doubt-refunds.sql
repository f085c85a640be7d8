-- Refunds that succeeded in both books, those seen longest ago first: a bank may send one back
-- weeks later, and no list by time shows that. Nobody has looked at them for an hour.
--
-- $1 rows at most.
-- A row: kind and id of one to ask about.
SELECT 'refund' AS kind, refunds.id
FROM auditor.refunds JOIN ledger.transactions USING (txn_id)
WHERE refunds.status = 'succeeded' AND transactions.state = 'succeeded'
  AND transactions.settled_at > now() - interval '30 days'
  AND refunds.seen_at < now() - interval '1 hour'
ORDER BY refunds.seen_at
LIMIT $1
