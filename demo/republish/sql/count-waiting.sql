-- How many events of before a time wait to be published. Always one row.
--
-- $1 the time.
SELECT count(*)::integer AS waiting FROM ledger.outbox WHERE state = 'pending' AND created_at < $1
