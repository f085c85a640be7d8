-- Payments that the ledger has more than once. No parameters.
--
-- A row: the id, how often it is there, what was booked in all and what the first row is about.
SELECT txn_id AS id, count(*)::int AS rows, currency,
       (array_agg(amount ORDER BY settled_at))[1] AS amount,
       (SELECT sum(amount)::bigint FROM ledger.entries
        WHERE entries.txn_id = transactions.txn_id) AS booked
FROM ledger.transactions
GROUP BY txn_id, currency
HAVING count(*) > 1
ORDER BY txn_id
