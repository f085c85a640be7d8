-- Statements of ledger.continuity. The step that they guard is refused by the trigger
-- ledger.require_continuity.

-- name: look
-- What is known of the server that answers.
--
-- No parameters. Always one row.
SELECT
  ledger.this_server() AS server,
  CASE
    WHEN set_back_at IS NOT NULL THEN 'set-back'
    WHEN server = ledger.this_server() THEN 'known'
    ELSE 'unknown'
  END AS state,
  archived
FROM ledger.continuity

-- name: countLacking
-- How many of these events the outbox does not have, word for word.
--
-- $1 their ids, $2 their texts. Always one row.
SELECT count(*)::integer AS lacking
FROM unnest($1::uuid[], $2::text[]) AS archived (event_id, payload)
LEFT JOIN ledger.outbox USING (event_id)
WHERE outbox.payload IS DISTINCT FROM archived.payload

-- name: noteWhole
-- Notes that a server has every event which was archived until then.
--
-- $1 the server, $2 the next offset of each partition.
-- A row: it is noted. No row: another server answers, or it is set back.
UPDATE ledger.continuity SET server = $1::text, archived = $2::jsonb
WHERE ledger.this_server() = $1::text AND set_back_at IS NULL
RETURNING server

-- name: noteSetBack
-- Notes that a server lacks something, unless somebody has seen meanwhile that it does not.
--
-- $1 the server. No rows.
UPDATE ledger.continuity SET set_back_at = now()
WHERE ledger.this_server() = $1::text AND server <> $1::text AND set_back_at IS NULL
