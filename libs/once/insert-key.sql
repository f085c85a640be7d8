-- Puts a key where there is none, inside of the transaction that has the effect.
--
-- $1 scope, $2 key, $3 fingerprint, $4 owner token, $5 how long the key is kept, in milliseconds.
-- Waits for another transaction that has put the same key, until it commits or rolls back. Nothing
-- is returned: lock-key.sql says whose it is.
INSERT INTO once (scope, key, fingerprint, state, owner, fence, lease_until, expires_at)
VALUES ($1, $2, $3, 'in-flight', $4, nextval('once_fence'), clock_timestamp(),
  clock_timestamp() + $5 * interval '1 ms')
ON CONFLICT (scope, key) DO NOTHING
