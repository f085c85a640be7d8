-- How many rows the copy has, and what its entries come to. No parameters; always one row.
SELECT
  (SELECT count(*) FROM ledger.transactions) AS transactions,
  (SELECT count(*) FROM ledger.entries) AS entries,
  (SELECT coalesce(sum(amount), 0)::bigint FROM ledger.entries) AS moved
