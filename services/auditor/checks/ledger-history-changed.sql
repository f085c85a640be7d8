-- What a ledger in another store says of its rows, and their history does not allow: an amount, an
-- end or an event that was changed, a row that is gone. Empty where the ledger is in PostgreSQL,
-- which refuses.
SELECT kind || ' ' || id AS id, first_seen AS since
FROM ledger.copy_differences
