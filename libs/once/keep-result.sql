-- Keeps what an effect came to, in the transaction that had it and holds the key's lock.
--
-- $1 scope, $2 key, $3 fingerprint, $4 `completed` or `failed`, $5 result as JSON text, $6 how long
-- a key that had expired is kept, in milliseconds.
-- Nothing is returned: the row is there, because it is locked.
UPDATE once SET
  fingerprint = $3, state = $4, result = $5, fence = nextval('once_fence'),
  -- Who had started it outside of a transaction has lost it.
  owner = gen_random_uuid(),
  expires_at = CASE WHEN expires_at > clock_timestamp()
    THEN expires_at ELSE clock_timestamp() + $6 * interval '1 ms' END
WHERE scope = $1 AND key = $2
