-- Renews an owner's leases, gives up what is more than its share, and takes what is free.
--
-- $1 owner, $2 lease in milliseconds, $3 how many buckets at most are given up at once.
-- A row: a bucket that the owner holds now, and its epoch. No row: it holds none; others that are
-- alive hold their shares, or have yet to give up the surplus.
--
-- The share is the buckets divided by the owners alive, rounded up, so that nothing is left over.
-- All leases are locked in one order, so that owners take turns here. Under READ COMMITTED the
-- locked rows are the newest, also those that a turn before changed.
WITH announced AS (
  INSERT INTO ledger.outbox_owners (owner, alive_until)
  VALUES ($1::text, now() + $2::integer * interval '1 millisecond')
  ON CONFLICT (owner) DO UPDATE SET alive_until = EXCLUDED.alive_until
), forgotten AS (
  DELETE FROM ledger.outbox_owners WHERE owner IN (
    SELECT owner FROM ledger.outbox_owners
    WHERE owner <> $1::text AND alive_until < now() - interval '1 day'
    FOR UPDATE SKIP LOCKED
  )
), leases AS MATERIALIZED (
  SELECT bucket, owner, expires_at FROM ledger.outbox_leases ORDER BY bucket FOR UPDATE
), share AS (
  SELECT ceil((SELECT count(*) FROM leases) / (1.0 + count(*)))::integer AS buckets
  FROM ledger.outbox_owners
  WHERE owner <> $1::text AND alive_until > now()
), held AS (
  SELECT
    bucket,
    row_number() OVER (ORDER BY bucket) AS place,
    count(*) OVER () - least($3::integer, greatest(0, count(*) OVER () - share.buckets)) AS keeps
  FROM leases, share
  WHERE owner = $1::text AND expires_at > now()
), free AS (
  SELECT bucket FROM leases
  WHERE owner IS NULL OR expires_at <= now()
  ORDER BY bucket
  LIMIT (SELECT greatest(0, share.buckets - (SELECT count(*) FROM held)) FROM share)
), kept AS (
  UPDATE ledger.outbox_leases AS lease
  SET expires_at = now() + $2::integer * interval '1 millisecond'
  FROM held WHERE lease.bucket = held.bucket AND held.place <= held.keeps
  RETURNING lease.bucket, lease.epoch
), given_up AS (
  UPDATE ledger.outbox_leases AS lease SET owner = NULL, expires_at = now()
  FROM held WHERE lease.bucket = held.bucket AND held.place > held.keeps
), taken AS (
  UPDATE ledger.outbox_leases AS lease
  SET owner = $1::text, epoch = lease.epoch + 1,
      expires_at = now() + $2::integer * interval '1 millisecond'
  FROM free WHERE lease.bucket = free.bucket
  RETURNING lease.bucket, lease.epoch
)
SELECT bucket, epoch FROM kept
UNION ALL
SELECT bucket, epoch FROM taken
ORDER BY bucket
