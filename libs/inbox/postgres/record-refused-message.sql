-- Keeps a message that is no event of ours. Receiving it again changes nothing.
--
-- $1 consumer, $2 message id, $3 reason, $4 detail, $5 data, $6 attributes as JSON text.
-- A row: it is new. No row: it was here before.
INSERT INTO refused_messages (consumer, message_id, reason, detail, data, attributes)
VALUES ($1, $2, $3, $4, $5, $6::json)
ON CONFLICT (consumer, message_id) DO NOTHING
RETURNING message_id
