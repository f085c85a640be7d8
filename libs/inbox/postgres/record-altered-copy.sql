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
