-- One claim by its id: all but claim.sql, which makes it.

-- name: complete
-- Stores the answer of a claim for replay. One atomic step.
--
-- $1 namespace, $2 txn_id, $3 owner token, $4 status, $5 location, $6 body, $7 life of the record
-- in milliseconds, which begins anew: an answer is kept for so long from when it was given.
-- A row: the answer is stored, also when this owner had stored it before. No row: the claim is
-- another owner's or gone, and nothing was written. The last owner may complete after its lease or
-- its release: as long as it was not taken over, its answer is the only one.
UPDATE claims SET state = 'completed', status = $4, location = $5, body = $6,
  expires_at = clock_timestamp() + $7 * interval '1 ms'
WHERE namespace = $1 AND txn_id = $2 AND owner = $3 AND expires_at > clock_timestamp()
RETURNING txn_id

-- name: release
-- Ends the lease of a claim at once and keeps everything else: the fingerprint above all, so that
-- only the same request takes over. One atomic step.
--
-- $1 namespace, $2 txn_id, $3 owner token.
-- A row: the claim is released. No row: it is another owner's, completed or gone, and nothing was
-- written.
UPDATE claims SET state = 'released'
WHERE namespace = $1 AND txn_id = $2 AND owner = $3
  AND state <> 'completed' AND expires_at > clock_timestamp()
RETURNING txn_id

-- name: read
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

-- name: walk
-- Some claims in the order of their ids, for whoever compares all of them with the ledger. Writes
-- nothing, and needs no right to.
--
-- $1 namespace, $2 txn_id behind which to go on, null = from the first, $3 rows at most.
-- A row: a claim, and whether it is completed and lives. Fewer rows than $3: they were the last.
SELECT
  txn_id, partner, fingerprint, accepted_at,
  state = 'completed' AND expires_at > clock_timestamp() AS is_completed
FROM claims.claims
WHERE namespace = $1 AND txn_id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY txn_id
LIMIT $3

-- name: shown
-- What a read shows of a claim that lives, for whoever walks.
--
-- $1 namespace, $2 txn_id. No row: there is no such claim.
SELECT shown FROM claims.claims
WHERE namespace = $1 AND txn_id = $2 AND expires_at > clock_timestamp()

-- name: reap
-- Takes claims out that expired more than an hour ago, oldest first.
--
-- $1 rows at most.
-- Always one row: how many left. 0: none is old enough.
SELECT reap_claims($1) AS reaped
