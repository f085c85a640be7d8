-- Starts an effect, or says what became of it. One atomic step.
--
-- $1 scope, $2 key, $3 fingerprint, $4 owner token, new for every start, $5 lease in milliseconds,
-- $6 how long the key is kept, in milliseconds.
--
-- A row with `outcome`:
--   started    ours to do, with `fence`
--   completed  done before: result, kept for life_left_ms
--   failed     failed for good before: result, kept for life_left_ms
--   reused     the key belongs to another fingerprint
--   in-flight  another owner is at work for lease_left_ms
-- No row: a start committed between this statement's look and its write. Run it again.
-- The fence grows for as long as anybody may know the key: a row is locked when its fence is drawn,
-- and one that is new has no owner before it whom it could have overtaken, because `reap` takes a
-- row out an hour after its life, and no statement waits so long.
-- Only `started` writes. The order of the checks and the clock are those of claim.sql.
WITH asked AS MATERIALIZED (
  SELECT clock_timestamp() AS at
),
found AS MATERIALIZED (
  SELECT o.*,
    o.fingerprint <> $3 AS is_reused,
    o.state IN ('completed', 'failed') AS is_finished,
    o.state = 'in-flight' AND o.lease_until > asked.at AND o.owner <> $4 AS is_at_work
  FROM once AS o, asked
  WHERE o.scope = $1 AND o.key = $2 AND o.expires_at > asked.at
),
written AS (
  INSERT INTO once AS o (scope, key, fingerprint, state, owner, fence, lease_until, expires_at)
  SELECT $1, $2, $3, 'in-flight', $4, nextval('once_fence'), asked.at + $5 * interval '1 ms',
    asked.at + $6 * interval '1 ms'
  FROM asked
  WHERE NOT EXISTS (SELECT FROM found WHERE is_reused OR is_finished OR is_at_work)
  ON CONFLICT (scope, key) DO UPDATE SET
    fingerprint = excluded.fingerprint,
    state = excluded.state,
    owner = excluded.owner,
    -- Drawn anew, now that the row is locked: the one to insert was drawn before, and while this
    -- start waited another one may have drawn a larger one, worked and released.
    fence = nextval('once_fence'),
    lease_until = excluded.lease_until,
    expires_at = CASE WHEN o.expires_at > (SELECT at FROM asked)
      THEN o.expires_at ELSE excluded.expires_at END,
    result = NULL
  WHERE o.expires_at <= (SELECT at FROM asked)
    OR o.fingerprint = excluded.fingerprint AND (
      o.state = 'released'
      OR o.state = 'in-flight'
        AND (o.lease_until <= (SELECT at FROM asked) OR o.owner = excluded.owner)
    )
  RETURNING o.fence
)
SELECT 'started' AS outcome, fence, NULL AS result, NULL::float8 AS lease_left_ms,
  NULL::float8 AS life_left_ms
FROM written
UNION ALL
SELECT CASE WHEN is_reused THEN 'reused' WHEN is_finished THEN state ELSE 'in-flight' END,
  NULL, CASE WHEN NOT is_reused THEN result END, extract(epoch FROM lease_until - asked.at) * 1000,
  extract(epoch FROM expires_at - asked.at) * 1000
FROM found, asked
WHERE is_reused OR is_finished OR is_at_work
