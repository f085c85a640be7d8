-- Whether there is anything to compare with a provider. Always one row.
SELECT EXISTS (SELECT FROM ledger.transactions WHERE payment_method IS NOT NULL)
  OR EXISTS (SELECT FROM auditor.provider_book) AS asks
