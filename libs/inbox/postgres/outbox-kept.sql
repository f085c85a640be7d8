-- For how long published events are kept, as the dispatchers have it, and the age of the oldest one
-- that is still there and can be published again.
--
-- A row: milliseconds; the second is 0 when the outbox is empty. No row: no dispatcher has said
-- yet.
SELECT
  (extract(epoch FROM kept_for) * 1000)::float8 AS kept_ms,
  coalesce(extract(epoch FROM oldest) * 1000, 0)::float8 AS oldest_ms
FROM ledger.outbox_kept()
WHERE kept_for IS NOT NULL
