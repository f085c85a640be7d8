-- Statements of ledger.continuity. The step that they guard is refused by the trigger
-- ledger.require_continuity.

-- name: look
-- What is known of the server that answers.
--
-- No parameters. A row: it. No row: somebody has taken the table's own one away.
SELECT
  ledger.this_server() AS server,
  CASE
    WHEN set_back_at IS NOT NULL THEN 'set-back'
    WHEN server <> ledger.this_server() THEN 'unknown'
    WHEN posted_on <> server THEN 'unread'
    ELSE 'known'
  END AS state,
  archived, posted
FROM ledger.continuity

-- name: countLacking
-- How many of these events the outbox does not have, word for word.
--
-- $1 their ids, $2 their texts. Always one row.
SELECT count(*)::integer AS lacking
FROM unnest($1::uuid[], $2::text[]) AS archived (event_id, payload)
LEFT JOIN ledger.outbox USING (event_id)
WHERE outbox.payload IS DISTINCT FROM archived.payload

-- name: publishAgain
-- Lets those of some events that were published wait for a dispatcher once more.
--
-- $1 their ids. Always one row, of nothing.
SELECT ledger.publish_again($1::uuid[])

-- name: findUnposted
-- Those of some requests that are not posted, and whose key is not known to stand for another one.
--
-- $1 their ids, $2 their fingerprints in hex, $3 the ids of the events that would report the key. A
-- row: `nth`, from 1, of one of them.
SELECT nth::integer
FROM unnest($1::uuid[], $2::text[], $3::uuid[]) WITH ORDINALITY
  AS request (txn_id, fingerprint, conflict_id, nth)
LEFT JOIN ledger.transactions USING (txn_id)
WHERE transactions.fingerprint IS DISTINCT FROM decode(request.fingerprint, 'hex')
  AND NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = request.conflict_id)
ORDER BY nth

-- name: noteWhole
-- Notes that a server has every event which was archived until then.
--
-- $1 the server, $2 the next offset of each partition, $3 the same of the accepted topic where
-- every record before is posted, or null, $4 what was noted as the archive's offsets when this was
-- begun: a note that was asked for before another one must not take that one back.
-- A row: it is noted. No row: another server answers, it is set back, or it is not any more as it
-- was when this was begun: noted anew, or, with $3, doubted.
--
-- Where another server was noted, the provider is asked for every dispute since that note: what it
-- reported and was answered for may be lacking here, and it does not repeat that.
WITH before AS MATERIALIZED (
  SELECT server, noted_at FROM ledger.continuity FOR UPDATE
), noted AS (
  UPDATE ledger.continuity AS this
  SET server = $1::text, archived = $2::jsonb, noted_at = now(),
      posted = coalesce($3::jsonb, this.posted),
      posted_on = CASE WHEN $3::jsonb IS NULL THEN this.posted_on ELSE $1::text END
  FROM before
  WHERE ledger.this_server() = $1::text AND set_back_at IS NULL AND archived = $4::jsonb
    AND ($3::jsonb IS NULL OR this.server = $1::text)
  RETURNING this.server, before.server AS last_server, before.noted_at AS last_noted_at
), asked AS (
  INSERT INTO ledger.rewinds (since, disputes_only)
  SELECT last_noted_at, true FROM noted WHERE server <> last_server AND last_noted_at IS NOT NULL
)
SELECT server FROM noted

-- name: notePosted
-- Notes that a whole server has posted every record which was accepted until then.
--
-- $1 the server, $2 the next offset of each partition. A row and no row as above.
UPDATE ledger.continuity SET posted = $2::jsonb, posted_on = $1::text
WHERE ledger.this_server() = $1::text AND server = $1::text AND set_back_at IS NULL
RETURNING server

-- name: doubt
-- Takes back what is noted of a server.
--
-- $1 the server. No rows.
UPDATE ledger.continuity SET server = '', posted_on = ''
WHERE ledger.this_server() = $1::text AND server = $1::text

-- name: noteSetBack
-- Notes that a server lacks something, unless somebody has seen meanwhile that it does not.
--
-- $1 the server. No rows.
UPDATE ledger.continuity SET set_back_at = now()
WHERE ledger.this_server() = $1::text AND server <> $1::text AND set_back_at IS NULL
