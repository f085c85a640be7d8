-- Events that can never be published, and those that wait behind them.
SELECT event_id::text AS id, created_at AS since
FROM ledger.outbox
WHERE state = 'parked'
