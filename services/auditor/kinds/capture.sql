-- A capture moves what was captured into the partner's payable funds, from what its payment's
-- provider collected.

-- name: debit
coalesce(
  'provider.' || coalesce(transactions.provider, payments.provider), transactions.partner_id
) || ':clearing'

-- name: credit
transactions.partner_id || ':payable'
