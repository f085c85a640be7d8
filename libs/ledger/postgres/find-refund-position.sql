-- Where a refund stands in the list of its payment's.
--
-- $1 payment id, $2 partner id, $3 id.
-- A row: its time, which never changes. No row: the partner has no such refund of this payment.
SELECT created_at FROM ledger.transactions
WHERE txn_id = $3 AND partner_id = $2 AND payment_id = $1 AND kind = 'refund'
