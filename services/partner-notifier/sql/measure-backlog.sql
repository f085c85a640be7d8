-- How much is still to be delivered.
--
-- One row: deliveries that wait, and the age in seconds of the oldest, 0 when there is none.
SELECT count(*)::integer AS waiting,
       coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
FROM deliveries
WHERE state = 'pending'
