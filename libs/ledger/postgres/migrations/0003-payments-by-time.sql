-- Lists of a partner's payments, newest first. Building an index holds up posting until it is done,
-- which on a table of millions takes seconds: payments wait in Kafka for as long.

CREATE INDEX payments_by_time ON ledger.transactions (partner_id, created_at, txn_id)
  WHERE kind = 'payment';

-- The two filters, each by an index that only holds what it is asked for: a payment without a
-- reference that succeeded costs neither of them a write.
CREATE INDEX payments_by_reference ON ledger.transactions
  (partner_id, reference, created_at, txn_id)
  WHERE kind = 'payment' AND reference IS NOT NULL;
CREATE INDEX payments_not_succeeded ON ledger.transactions
  (partner_id, state, created_at, txn_id)
  WHERE kind = 'payment' AND state <> 'succeeded';
