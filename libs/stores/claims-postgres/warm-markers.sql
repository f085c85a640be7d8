-- The warm marker of a bucket: since when it remembers every claim, and what a loss calls for.

-- name: noteLoss
-- Begins a new epoch of a bucket whose claims were lost. One atomic step.
--
-- $1 namespace, $2 bucket, $3 a new epoch, random.
-- A row: the epoch and barrier (null = none) as they hold now: of the epoch that was there when
-- this history of the server wrote it, else of the new one. No row: another one began it between
-- this statement's look and its write. Run it again.
--
-- No row in the table means that everything was forgotten, or that this store is new; a row of
-- another history, that the server was restored or failed over, which keeps old claims and may lose
-- late ones. Its barrier and its warmth are of a history that has ended.
WITH found AS MATERIALIZED (
  SELECT epoch, barrier FROM warm_markers
  WHERE namespace = $1 AND bucket = $2 AND history = current_history()
),
written AS (
  INSERT INTO warm_markers AS m (namespace, bucket, epoch, history, since)
  SELECT $1, $2, $3, current_history(), clock_timestamp()
  WHERE NOT EXISTS (SELECT FROM found)
  ON CONFLICT (namespace, bucket) DO UPDATE SET
    epoch = excluded.epoch, history = excluded.history, since = excluded.since,
    barrier = NULL, warm = false
  WHERE m.history <> excluded.history
  RETURNING epoch, barrier
)
SELECT epoch::text AS epoch, barrier FROM found
UNION ALL
SELECT epoch::text, barrier FROM written

-- name: setBarrier
-- Stores what the ledger must have passed before the bucket's silence means anything.
--
-- $1 namespace, $2 bucket, $3 epoch that was noted before the barrier was read, $4 barrier,
-- $5 whether nothing was ever accepted, so that nothing can have been lost.
-- A row: it was stored. No row: the epoch is over or has a barrier, and nothing was written. Why
-- this order is safe is explained in set-barrier.lua of libs/claims.
UPDATE warm_markers SET barrier = $4, warm = $5
WHERE namespace = $1 AND bucket = $2 AND epoch::text = $3 AND barrier IS NULL
RETURNING bucket

-- name: markCold
-- Makes a bucket cold, because claims may have been made elsewhere. Its claims stay and still
-- count.
--
-- $1 namespace, $2 bucket.
-- A row: the bucket had a marker, which is no history's any more. No row: it was cold.
UPDATE warm_markers SET history = 'marked cold' WHERE namespace = $1 AND bucket = $2
RETURNING bucket
