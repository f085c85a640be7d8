-- Makes a webhook that was given up due at once, with all the time for retries again.
--
-- $1 event id. A row: it is due. No row: it was not given up. Attempts go on counting, because
-- their number is what keeps an overtaken sender from recording.
UPDATE notifier.deliveries
SET state = 'pending', finished_at = NULL, first_attempt_at = NULL, next_attempt_at = now()
WHERE event_id = $1 AND state = 'failed'
RETURNING event_id
