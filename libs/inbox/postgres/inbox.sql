-- What is asked of an inbox beside the guard's own step, admit-events.sql. The tables are in
-- migrations/0001-baseline.sql.

-- name: recordAlteredCopy
-- Compares a copy with the event as it was first received, and keeps the copy's hash when they
-- differ.
--
-- $1 consumer, $2 event id, $3 payload hash.
-- A row: the copy differs from `known_hash`. No row: it is the same, or the event is no longer
-- remembered.
INSERT INTO altered_copies (consumer, event_id, payload_hash, known_hash)
SELECT consumer, event_id, $3, payload_hash
FROM inbox
WHERE consumer = $1 AND event_id = $2 AND payload_hash <> $3
ON CONFLICT (consumer, event_id, payload_hash)
  DO UPDATE SET copies = altered_copies.copies + 1, last_seen = now()
RETURNING known_hash

-- name: readCursor
-- How far a consumer is in an ordering key.
--
-- $1 consumer, $2 ordering key.
-- A row: every sequence up to `last_sequence` took effect. No row: none did.
SELECT last_sequence FROM cursors WHERE consumer = $1 AND ordering_key = $2

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
