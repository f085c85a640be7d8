-- Who may use the console; run as the database's owner.

-- name: addOperator
-- $1 name, $2 role, $3 what is kept of the token. A row: it is so. No row: the name is taken.
INSERT INTO console.operators (operator, role, token_hash) VALUES ($1, $2, $3)
ON CONFLICT (operator) DO NOTHING
RETURNING operator

-- name: rotateToken
-- Gives an operator another token, which ends every session; one who was revoked is good again.
--
-- $1 name, $2 what is kept of the new token. A row: it is so. No row: there is no such operator.
UPDATE console.operators SET token_hash = $2, revoked_at = NULL WHERE operator = $1
RETURNING operator

-- name: setRole
-- $1 name, $2 role. A row: it holds from the next request. No row: there is no such operator.
UPDATE console.operators SET role = $2 WHERE operator = $1
RETURNING operator

-- name: revokeOperator
-- $1 name. A row: token and sessions are good no more, whether by this call or one before. No row:
-- there is no such operator.
UPDATE console.operators SET revoked_at = coalesce(revoked_at, now()) WHERE operator = $1
RETURNING operator

-- name: listOperators
-- A row: an operator, in the order of names.
SELECT operator, role, added_at AS "addedAt", revoked_at AS "revokedAt" FROM console.operators ORDER BY 1
