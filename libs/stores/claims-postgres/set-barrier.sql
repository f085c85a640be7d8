-- Stores what the ledger must have passed before the bucket's silence means anything.
--
-- $1 namespace, $2 bucket, $3 epoch that was noted before the barrier was read, $4 barrier,
-- $5 whether nothing was ever accepted, so that nothing can have been lost.
-- A row: it was stored. No row: the epoch is over or has a barrier, and nothing was written. Why
-- this order is safe is explained in set-barrier.lua of libs/claims.
UPDATE warm_markers SET barrier = $4, warm = $5
WHERE namespace = $1 AND bucket = $2 AND epoch::text = $3 AND barrier IS NULL
RETURNING bucket
