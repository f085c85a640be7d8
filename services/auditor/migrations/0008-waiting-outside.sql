-- Pending transactions that wait for somebody outside: a payment from when its customer may confirm it,
-- the refunds behind it, and a refund that the provider has accepted and a bank has yet to carry out.
CREATE VIEW waiting_outside AS
SELECT transactions.txn_id, transactions.created_at
FROM ledger.transactions
LEFT JOIN ledger.transactions AS payments ON payments.txn_id = transactions.payment_id
WHERE transactions.state = 'pending' AND (
  transactions.provider_intent_id IS NOT NULL
  OR transactions.provider_refund_id IS NOT NULL
  OR payments.state = 'pending' AND payments.provider_intent_id IS NOT NULL
);

GRANT SELECT ON waiting_outside TO triplock_auditor;
