-- Gives an owner's leases back. The epochs stay: the next owner of a bucket raises its epoch.
--
-- $1 owner. No row, ever.
WITH gone AS (
  DELETE FROM ledger.outbox_owners WHERE owner = $1::text
), held AS MATERIALIZED (
  SELECT bucket FROM ledger.outbox_leases WHERE owner = $1::text ORDER BY bucket FOR UPDATE
)
UPDATE ledger.outbox_leases AS lease SET owner = NULL, expires_at = now()
FROM held WHERE lease.bucket = held.bucket AND lease.owner = $1::text
