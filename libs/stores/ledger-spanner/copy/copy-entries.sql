-- Adds entries to the copy. One that is there stays as it is.
--
-- $1 a JSON array of rows. A row: the id of an entry that the store tells otherwise than it was
-- before.
WITH told AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS row (
    txn_id uuid, debit_account text, credit_account text, amount bigint, currency text,
    created_at timestamptz
  )
), added AS (
  INSERT INTO ledger.entries (
    txn_id, debit_account, credit_account, amount, currency, created_at
  )
  SELECT txn_id, debit_account, credit_account, amount, currency, created_at
  FROM told
  ORDER BY txn_id
  ON CONFLICT (txn_id) DO NOTHING
)
SELECT known.txn_id::text AS id
FROM told JOIN ledger.entries AS known USING (txn_id)
WHERE (known.debit_account, known.credit_account, known.amount, known.currency)
  IS DISTINCT FROM (told.debit_account, told.credit_account, told.amount, told.currency)
