-- Takes pending transactions whose time has come, longest due first.
--
-- $1 how many at most, $2 the least milliseconds until each is due again.
-- A row: a transaction that only the caller has now, under a new version; it is due again after a
-- quarter of its age, a minute at most. No row: nothing is due.
WITH due AS (
  SELECT txn_id FROM ledger.transactions
  WHERE state = 'pending' AND due_at <= now()
  ORDER BY due_at
  LIMIT $1
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ledger.transactions AS target
SET version = version + 1,
    due_at = now() + greatest(
      $2::integer * interval '1 millisecond',
      least(interval '1 minute', (now() - created_at) / 4)
    )
FROM due WHERE target.txn_id = due.txn_id AND target.state = 'pending'
RETURNING target.txn_id, target.kind, target.version, target.traceparent
