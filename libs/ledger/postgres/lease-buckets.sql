-- Renews an owner's leases, gives up what is more than its share, and takes what is free.
--
-- $1 owner, $2 lease in milliseconds.
-- A row: a bucket that the owner holds now, its epoch, `more_to_come`: the owner lacks buckets that
-- others hold beyond their share, and will give up when they renew, and `server`: on which it holds
-- them. One row without a bucket: it holds none.
--
-- The share is the buckets divided by the owners alive, rounded up, so that nothing is left over. A
-- surplus is given up at once: an owner that lacks buckets asks often, so none of them waits for
-- long. All leases are locked in one order, so that one owner leases after the other. Under
-- READ COMMITTED the locked rows are the newest, also those that the owner before changed.
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
    row_number() OVER (ORDER BY bucket) <= share.buckets AS keeps
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
  FROM held WHERE lease.bucket = held.bucket AND held.keeps
  RETURNING lease.bucket, lease.epoch
), given_up AS (
  UPDATE ledger.outbox_leases AS lease SET owner = NULL, expires_at = now()
  FROM held WHERE lease.bucket = held.bucket AND NOT held.keeps
), taken AS (
  UPDATE ledger.outbox_leases AS lease
  SET owner = $1::text, epoch = lease.epoch + 1,
      expires_at = now() + $2::integer * interval '1 millisecond'
  FROM free WHERE lease.bucket = free.bucket
  RETURNING lease.bucket, lease.epoch
), holding AS (
  SELECT bucket, epoch FROM kept
  UNION ALL
  SELECT bucket, epoch FROM taken
), surplus AS (
  SELECT FROM leases, share
  WHERE owner <> $1::text AND expires_at > now()
  GROUP BY owner, share.buckets
  HAVING count(*) > share.buckets
)
SELECT
  holding.bucket,
  holding.epoch,
  (SELECT count(*) FROM holding) < share.buckets AND EXISTS (SELECT FROM surplus) AS more_to_come,
  ledger.this_server() AS server
FROM share LEFT JOIN holding ON true
ORDER BY holding.bucket
