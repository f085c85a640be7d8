-- How far a list was read.
--
-- $1 kind.
-- Always one row: the cursor of a walk under way or null, and how far everything is known.
SELECT cursor, known_until AS "knownUntil" FROM provider_walks WHERE kind = $1
