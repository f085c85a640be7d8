-- A payment moves its amount into the partner's payable funds: from what its provider collected,
-- or from what the partner itself cleared. The money of one that was captured is its capture's.

-- name: debit
coalesce('provider.' || transactions.provider, transactions.partner_id) || ':clearing'

-- name: credit
transactions.partner_id || ':payable'
