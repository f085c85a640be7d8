-- Ledger rows without a request in the topic.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
WHERE NOT EXISTS (
  SELECT FROM auditor.accepted
  WHERE accepted.txn_id = transactions.txn_id AND accepted.fingerprint = transactions.fingerprint
)
