-- Events of which the notifier received copies with other bytes.
SELECT event_id::text AS id, min(first_seen) AS since
FROM notifier.altered_copies
GROUP BY event_id
