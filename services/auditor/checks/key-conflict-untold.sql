-- Requests that lost their key to another one without an event that tells the partner.
SELECT accepted.txn_id::text AS id, accepted.first_seen AS since
FROM auditor.accepted
JOIN ledger.transactions USING (txn_id)
WHERE accepted.fingerprint <> transactions.fingerprint
  AND NOT EXISTS (
    SELECT FROM ledger.outbox
    WHERE outbox.event_id = auditor.derive_id(
      'event', accepted.txn_id::text, 'payment.key_conflict', encode(accepted.fingerprint, 'hex')
    )
  )
ORDER BY since LIMIT 100
