-- Has every list walked from its beginning, also where a walk is under way.
--
-- Rounded down, because what is met from now on must not seem older.
UPDATE provider_walks SET
  known_until = since, newest = NULL, cursor = NULL,
  everything_since = date_trunc('milliseconds', clock_timestamp())
