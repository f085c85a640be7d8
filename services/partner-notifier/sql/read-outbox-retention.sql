-- For how long a published event can be republished, as the dispatchers have it.
--
-- A row: milliseconds. No row: no dispatcher has told yet.
SELECT (extract(epoch FROM kept_for) * 1000)::float8 AS kept_ms
FROM ledger.outbox_horizon
WHERE kept_for IS NOT NULL
