-- Since when the book may lack something. Always one row.
SELECT greatest(
  (SELECT min(walked_at) FROM provider_walks),
  (SELECT min(created_at) FROM ledger.transactions WHERE payment_method IS NOT NULL)
) AS "walkedAt"
