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
