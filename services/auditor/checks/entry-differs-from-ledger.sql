-- Transactions that moved other money than they say: one that succeeded moves its amount once, and
-- any other moves nothing.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
LEFT JOIN ledger.entries USING (txn_id)
GROUP BY transactions.txn_id
HAVING count(entries.txn_id) <> (transactions.state = 'succeeded')::integer
  OR bool_or(entries.amount <> transactions.amount OR entries.currency <> transactions.currency)
