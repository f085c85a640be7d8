-- A refund moves its amount back to where its payment's came from.

-- name: debit
paid.credit_account

-- name: credit
paid.debit_account
