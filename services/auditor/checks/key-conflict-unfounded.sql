-- Key conflict events without a request that lost.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
WHERE outbox.event_type = 'payment.key_conflict'
  AND NOT EXISTS (
    SELECT FROM auditor.accepted
    JOIN ledger.transactions USING (txn_id)
    WHERE accepted.txn_id = outbox.txn_id
      AND accepted.fingerprint <> transactions.fingerprint
      AND outbox.event_id = auditor.derive_id(
        'event', accepted.txn_id::text, 'payment.key_conflict', encode(accepted.fingerprint, 'hex')
      )
  )
