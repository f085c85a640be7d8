-- Sessions of the console, and whose token one begins with.

-- name: findOperator
-- $1 SHA-256 of a token. A row: the operator whose good token it is. No row: nobody's.
SELECT operator, role FROM console.operators WHERE token_sha256 = $1 AND revoked_at IS NULL

-- name: beginSession
-- Begins a session by a token that is good, and forgets those that have ended.
--
-- $1 SHA-256 of the session's secret, $2 of the token, $3 and $4 as for findSession. A row: it has
-- begun. No row: the token is nobody's, and nothing was written.
WITH ended AS (
  DELETE FROM console.sessions
  WHERE begun_at < now() - $3::interval OR seen_at < now() - $4::interval
)
INSERT INTO console.sessions (session_sha256, operator, token_sha256)
SELECT $1, operator, token_sha256 FROM console.operators WHERE token_sha256 = $2 AND revoked_at IS NULL
RETURNING operator

-- name: findSession
-- $1 SHA-256 of a session's secret, $2 how long a session may last, $3 how long unused. A row: its
-- operator, with the role that they have now. No row: it has ended, or never was.
SELECT operator, role, seen_at < now() - interval '1 minute' AS "isStale"
FROM console.sessions JOIN console.operators USING (operator, token_sha256)
WHERE session_sha256 = $1 AND revoked_at IS NULL
  AND begun_at > now() - $2::interval AND seen_at > now() - $3::interval

-- name: noteSession
-- $1 SHA-256 of a session's secret that was used now. No row, ever.
UPDATE console.sessions SET seen_at = now() WHERE session_sha256 = $1

-- name: endSession
-- $1 SHA-256 of a session's secret. No row, ever; twice is harmless.
DELETE FROM console.sessions WHERE session_sha256 = $1
