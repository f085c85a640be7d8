-- What is asked of an inbox beside the guard's own step, admit-events.sql. The tables are in
-- migrations/0001-baseline.sql.

-- name: recordAlteredCopies
-- Compares copies with the events as they were first received, applied or kept early, and keeps the
-- hashes of those that differ.
--
-- $1 consumer, and of each copy $2 event id, $3 payload hash. No event is named twice.
-- A row: the copy `at` this index of the arrays, counted from 1, differs from `known_hash`. No row:
-- it is the same, or the event is no longer remembered.
WITH copies AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS t (event_id, payload_hash, at)
), altered AS (
  INSERT INTO altered_copies (consumer, event_id, payload_hash, known_hash)
  SELECT $1, event_id, copies.payload_hash, coalesce(known.payload_hash, early.payload_hash)
  FROM copies
  LEFT JOIN (SELECT event_id, payload_hash FROM inbox WHERE consumer = $1) AS known
    USING (event_id)
  LEFT JOIN (SELECT event_id, payload_hash FROM early_events WHERE consumer = $1) AS early
    USING (event_id)
  WHERE coalesce(known.payload_hash, early.payload_hash) <> copies.payload_hash
  ORDER BY event_id
  ON CONFLICT (consumer, event_id, payload_hash)
    DO UPDATE SET copies = altered_copies.copies + 1, last_seen = now()
  RETURNING event_id, known_hash
)
SELECT at::integer, known_hash FROM altered JOIN copies USING (event_id)

-- name: readCursors
-- How far a consumer is in ordering keys.
--
-- $1 consumer, $2 ordering keys, none of them twice.
-- A row: in the key `at` this index of the array, counted from 1, every sequence up to
-- `last_sequence` took effect. No row: none did.
SELECT at::integer, last_sequence
FROM unnest($2::uuid[]) WITH ORDINALITY AS key (ordering_key, at)
JOIN cursors USING (ordering_key)
WHERE consumer = $1

-- name: keepEarly
-- Keeps an event whose predecessor is still to come, unless too many are kept.
--
-- $1 consumer, $2 event id, $3 payload hash, $4 ordering key, $5 sequence, $6 type, payload and
-- trace as JSON text; $7 rows at most of an ordering key, $8 of the consumer, give or take those
-- who come at once.
-- Always one row: whether it is `kept`, now or before. Not kept, also by a race of two copies: the
-- broker brings it again.
WITH kept AS (
  INSERT INTO early_events (consumer, event_id, payload_hash, ordering_key, sequence, event)
  SELECT $1, $2, $3, $4, $5, $6::json
  WHERE (SELECT count(*) FROM early_events WHERE consumer = $1 AND ordering_key = $4) < $7
    AND (SELECT count(*) FROM early_events WHERE consumer = $1) < $8
  ON CONFLICT (consumer, event_id) DO NOTHING
  RETURNING event_id
)
SELECT EXISTS (SELECT FROM kept)
    OR EXISTS (SELECT FROM early_events WHERE consumer = $1 AND event_id = $2) AS kept

-- name: readNextEarly
-- The kept events that come next in some ordering keys, one of each at most.
--
-- $1 consumer, $2 ordering keys.
-- A row: an event as it came; its effect may follow by admit-events.sql, where it may turn out that
-- somebody else applied it meanwhile.
SELECT DISTINCT ON (ordering_key)
  event_id AS id, payload_hash AS "payloadHash", ordering_key AS "orderingKey", sequence, event
FROM early_events JOIN cursors USING (consumer, ordering_key)
WHERE consumer = $1 AND ordering_key = ANY ($2::uuid[]) AND sequence = last_sequence + 1
ORDER BY ordering_key, kept_at

-- name: findEarlyKeys
-- Ordering keys of which a kept event comes next, because whoever applied the one before died then.
--
-- $1 consumer, $2 rows at most.
SELECT ordering_key
FROM early_events JOIN cursors USING (consumer, ordering_key)
WHERE consumer = $1 AND sequence = last_sequence + 1
GROUP BY ordering_key
LIMIT $2

-- name: forgetApplied
-- Removes kept events that their cursor has passed.
--
-- $1 consumer. No rows.
DELETE FROM early_events USING cursors
WHERE early_events.consumer = $1
  AND cursors.consumer = early_events.consumer
  AND cursors.ordering_key = early_events.ordering_key
  AND cursors.last_sequence >= early_events.sequence

-- name: countEarly
-- What is kept, and for how long the oldest has been.
--
-- $1 consumer. Always one row; 0 seconds when nothing is kept.
SELECT count(*)::integer AS events,
       coalesce(extract(epoch FROM now() - min(kept_at)), 0)::float8 AS "oldestSeconds"
FROM early_events
WHERE consumer = $1

-- name: reapInbox
-- Removes a consumer's inbox rows that were received long ago, oldest first; cursors stay.
--
-- $1 consumer, $2 milliseconds for which rows are kept, a day at least; $3 rows at most.
-- Always one row: how many were removed. 0: none is old enough.
SELECT reap_inbox($1, $2::float8 * interval '1 millisecond', $3::integer) AS reaped

-- name: recordRefusedMessage
-- Keeps a message that is no event of ours. Receiving it again changes nothing.
--
-- $1 consumer, $2 message id, $3 reason, $4 detail, $5 data, $6 attributes as JSON text.
-- A row: it is new. No row: it was here before.
INSERT INTO refused_messages (consumer, message_id, reason, detail, data, attributes)
VALUES ($1, $2, $3, $4, $5, $6::json)
ON CONFLICT (consumer, message_id) DO NOTHING
RETURNING message_id
