-- Requests in the topic that neither the ledger nor a dead letter accounts for. This is how a lost
-- payment would look.
SELECT accepted.txn_id::text AS id, accepted.first_seen AS since
FROM auditor.accepted
WHERE NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.txn_id = accepted.txn_id AND transactions.fingerprint = accepted.fingerprint
  )
  AND NOT EXISTS (
    SELECT FROM auditor.dead_letters
    WHERE dead_letters.txn_id = accepted.txn_id AND dead_letters.fingerprint = accepted.fingerprint
  )
