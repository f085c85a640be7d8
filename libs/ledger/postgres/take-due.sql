-- Takes pending transactions whose time has come, longest due first.
--
-- $1 how many at most, $2 the least milliseconds until each is due again, $3 whether only those are
-- wanted that come to an end in the ledger alone: book transfers, and refunds yet to be reserved.
-- A row: a transaction that only the caller has now, under a new version; it is due again after a
-- quarter of its age, a minute at most. No row: nothing is due.
--
-- Sent unprepared, so that the planner sees $3 and takes the index of those few rows: while the
-- provider is away the other index is full of cards that are due.
WITH due AS (
  SELECT txn_id FROM ledger.transactions
  WHERE state = 'pending' AND due_at <= now()
    AND (
      NOT $3::boolean
      OR CASE kind WHEN 'refund' THEN amount IS NULL ELSE payment_method IS NULL END
    )
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
