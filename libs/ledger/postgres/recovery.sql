-- What workers do once the ledger was set back.

-- name: noteLost
-- Notes that the ledger was set back, unless a note of the same moment waits still: each worker
-- finds it by itself, and one that died in between finds it once more.
--
-- $1 a time before the first commit that was lost. No rows.
INSERT INTO ledger.rewinds (since)
SELECT $1::timestamptz
WHERE NOT EXISTS (
  SELECT FROM ledger.rewinds
  WHERE since = $1::timestamptz AND disputes_asked_at IS NULL AND NOT disputes_only
)

-- name: openRewind
-- The oldest moment to which the ledger was set back, or may have been, and whose disputes are not
-- all noted again.
--
-- No parameters. A row: it. No row: there is none.
SELECT rewind_id AS id, since, done_at AS "doneAt" FROM ledger.rewinds
WHERE disputes_asked_at IS NULL
ORDER BY rewind_id
LIMIT 1

-- name: disputesAsked
-- Notes that the provider was asked for every dispute since then.
--
-- $1 which rewind. No rows.
UPDATE ledger.rewinds SET disputes_asked_at = now()
WHERE rewind_id = $1 AND disputes_asked_at IS NULL
