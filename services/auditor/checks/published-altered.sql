-- Events with copies of other bytes.
SELECT event_id::text AS id, first_seen AS since
FROM auditor.published
WHERE altered > 0
