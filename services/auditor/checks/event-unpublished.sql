-- Events that wait to be published.
SELECT event_id::text AS id, created_at AS since
FROM ledger.outbox
WHERE state = 'pending'
