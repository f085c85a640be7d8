-- One key by its scope: all but start.sql, which starts an effect outside of a transaction.

-- name: insertKey
-- Puts a key where there is none, inside of the transaction that has the effect.
--
-- $1 scope, $2 key, $3 fingerprint, $4 owner token, $5 how long the key is kept, in milliseconds.
-- Waits for another transaction that has put the same key, until it commits or rolls back. Nothing
-- is returned: lockKey tells whose it is.
INSERT INTO once (scope, key, fingerprint, state, owner, fence, lease_until, expires_at)
VALUES ($1, $2, $3, 'in-flight', $4, nextval('once_fence'), clock_timestamp(),
  clock_timestamp() + $5 * interval '1 ms')
ON CONFLICT (scope, key) DO NOTHING

-- name: lockKey
-- Takes a key for the rest of the transaction and says what became of its effect.
--
-- $1 scope, $2 key, $3 fingerprint.
-- One row with `outcome`: `free` (nobody is at work: do it), `completed` or `failed` with result,
-- `reused`, or `in-flight` with lease_left_ms (started outside of a transaction).
SELECT
  CASE
    WHEN expires_at <= clock_timestamp() THEN 'free'
    WHEN fingerprint <> $3 THEN 'reused'
    WHEN state IN ('completed', 'failed') THEN state
    WHEN state = 'in-flight' AND lease_until > clock_timestamp() THEN 'in-flight'
    ELSE 'free'
  END AS outcome,
  result,
  extract(epoch FROM lease_until - clock_timestamp())::float8 * 1000 AS lease_left_ms
FROM once
WHERE scope = $1 AND key = $2
FOR UPDATE

-- name: keepResult
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

-- name: renew
-- Makes a lease last from now on. One atomic step.
--
-- $1 scope, $2 key, $3 owner token, $4 lease in milliseconds.
-- A row: it lasts. No row: another one took over, or the effect is finished or released.
UPDATE once SET lease_until = clock_timestamp() + $4 * interval '1 ms'
WHERE scope = $1 AND key = $2 AND owner = $3 AND state = 'in-flight'
RETURNING key

-- name: finish
-- Ends an effect: with its result, its failure, or nothing, so that the next one may start it.
--
-- $1 scope, $2 key, $3 owner token, $4 `completed`, `failed` or `released`, $5 result as JSON text,
-- null for `released`.
-- A row: it is written, also when this owner had written it before. No row: another one took over
-- or finished, and nothing was written. The last owner may finish after its lease: as long as
-- nobody took over, its result is the only one.
UPDATE once SET state = $4, result = $5
WHERE scope = $1 AND key = $2 AND owner = $3 AND state IN ('in-flight', $4)
RETURNING key

-- name: reap
-- Takes keys out that expired more than an hour ago, oldest first.
--
-- $1 rows at most.
-- A row for each that left. No row: none is old enough.
DELETE FROM once WHERE (scope, key) IN (
  SELECT scope, key FROM once
  WHERE expires_at < clock_timestamp() - interval '1 hour'
  ORDER BY expires_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)
RETURNING key
