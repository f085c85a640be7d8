-- Where a payment stands in its partner's list.
--
-- $1 partner id, $2 id.
-- A row: its time, which never changes. No row: the ledger has no such payment of this partner.
SELECT created_at FROM ledger.transactions
WHERE txn_id = $2 AND partner_id = $1 AND kind = 'payment'
