-- What a read shows of an id that the ledger does not know. Writes nothing.
--
-- $1 namespace, $2 txn_id, $3 its bucket, $4 life of a record in milliseconds.
-- One row with `outcome`:
--   pending  claimed, in whatever state: partner, shown, accepted_at
--   unknown  certainly not claimed
--   cold     no record, which proves nothing; epoch and barrier of the bucket, null = none
SELECT
  CASE WHEN c.txn_id IS NOT NULL THEN 'pending'
    WHEN m.warm OR m.since + $4 * interval '1 ms' <= asked.at THEN 'unknown'
    ELSE 'cold' END AS outcome,
  c.partner, c.shown, c.accepted_at, m.epoch::text AS epoch, m.barrier
FROM (SELECT clock_timestamp() AS at) AS asked
LEFT JOIN claims AS c ON c.namespace = $1 AND c.txn_id = $2 AND c.expires_at > asked.at
LEFT JOIN warm_markers AS m ON m.namespace = $1 AND m.bucket = $3 AND m.history = current_history()
