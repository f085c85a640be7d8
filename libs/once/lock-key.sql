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
