-- Whether nothing was ever posted. No parameters; always one row.
SELECT NOT EXISTS (SELECT FROM ledger.transactions) AS empty
