-- Ledger rows whose id does not follow from kind, partner and key.
SELECT txn_id::text AS id, created_at AS since
FROM ledger.transactions
WHERE txn_id <> auditor.derive_id(kind, partner_id, idempotency_key)
