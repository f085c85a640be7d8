-- Events of which a consumer received copies with other bytes.
SELECT event_id::text AS id, min(first_seen) AS since
FROM (
  SELECT event_id, first_seen FROM notifier.altered_copies
  UNION ALL
  SELECT event_id, first_seen FROM settlement.altered_copies
) AS altered
GROUP BY event_id
