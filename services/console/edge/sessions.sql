-- Sessions of the console, and whose token one begins with: by functions, which the schema
-- explains.

-- name: whoseToken
-- $1 SHA-256 of a token. A row: the operator whose good token it is. No row: nobody's.
SELECT operator, role FROM console.whose_token($1)

-- name: beginSession
-- $1 SHA-256 of the session's secret, $2 of the token. A row: it has begun. No row: the token is
-- nobody's.
SELECT operator FROM console.begin_session($1, $2)

-- name: whoseSession
-- $1 SHA-256 of a session's secret, which is used now. A row: its operator, with the role that they
-- have now. No row: it has ended, or never was.
SELECT operator, role FROM console.whose_session($1)

-- name: endSession
-- $1 SHA-256 of a session's secret. Twice is harmless.
SELECT console.end_session($1)
