-- Whether an event that is no longer in the outbox left it by age: the ledger has the transaction
-- whose end it tells, its id follows from that, and it was settled before what left. The clock that
-- settled is a worker's, so it may differ from the database's by some minutes.
CREATE FUNCTION left_outbox(told_txn_id uuid, told_type text, told_event_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM ledger.transactions, ledger.outbox_horizon
    WHERE transactions.txn_id = told_txn_id
      AND transactions.kind || '.' || transactions.state = told_type
      AND transactions.settled_at < outbox_horizon.reaped_before + interval '1 hour'
      AND told_event_id = auditor.derive_id('event', told_txn_id::text, told_type)
  )
$$;
