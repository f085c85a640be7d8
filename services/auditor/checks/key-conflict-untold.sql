-- Requests that lost their key to another one without an event for the partner.
WITH losers AS MATERIALIZED (
  SELECT accepted.txn_id, accepted.fingerprint, accepted.first_seen
  FROM auditor.accepted
  JOIN ledger.transactions USING (txn_id)
  WHERE accepted.fingerprint <> transactions.fingerprint
)
SELECT txn_id::text AS id, first_seen AS since
FROM losers
WHERE NOT EXISTS (
  SELECT FROM ledger.outbox
  WHERE outbox.event_id = auditor.derive_id(
    'event', losers.txn_id::text, 'payment.key_conflict', encode(losers.fingerprint, 'hex')
  )
)
