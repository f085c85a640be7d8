-- Takes out of the book what a walk over everything did not meet.
--
-- $1 kind, $2 when that walk began.
WITH ended AS (
  UPDATE provider_walks SET everything_since = NULL
  WHERE kind = $1 AND everything_since = $2::timestamptz
  RETURNING kind
)
DELETE FROM provider_book
WHERE kind IN (SELECT kind FROM ended) AND seen_at < $2::timestamptz
