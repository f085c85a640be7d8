-- Claims by their ids: all but claim.sql and claim-together.sql, which make them.

-- name: complete
-- Notes that the requests of some claims get their answers, which are functions of the requests and
-- need no place here. One atomic step, and one commit for all of them.
--
-- $1 namespace, $2 txn_ids, $3 their owner tokens, $4 life of the record in milliseconds, which
-- begins anew: a key is known for so long from when it was answered.
-- A row for each that is completed, also when this owner had done it before. No row: the claim is
-- another owner's or gone, and nothing was written. The last owner may complete after its lease or
-- its release: as long as it was not taken over, its answer is the only one. A claim has one owner,
-- so no two batches wait for each other's rows.
UPDATE claims AS c SET state = 'completed', expires_at = clock_timestamp() + $4 * interval '1 ms'
FROM unnest($2::uuid[], $3::uuid[]) AS n (txn_id, owner)
WHERE c.namespace = $1 AND c.txn_id = ANY ($2) AND c.txn_id = n.txn_id AND c.owner = n.owner
  AND c.expires_at > clock_timestamp()
RETURNING c.txn_id, c.owner

-- name: release
-- Ends the lease of a claim at once and keeps everything else: the fingerprint above all, so that
-- only the same request takes over. One atomic step.
--
-- $1 namespace, $2 txn_id, $3 owner token.
-- A row: the claim is released. No row: it is another owner's, completed or gone, and nothing was
-- written.
UPDATE claims SET state = 'released'
WHERE namespace = $1 AND txn_id = $2 AND owner = $3
  AND state <> 'completed' AND expires_at > clock_timestamp()
RETURNING txn_id

-- name: read
-- What a read shows of an id that the ledger does not know. Writes nothing.
--
-- $1 namespace, $2 txn_id, $3 its bucket, $4 life of a record in milliseconds.
-- One row with `outcome`:
--   pending  claimed, in whatever state: partner, kind, accepted_at, lease_left_ms; null =
--            completed; and shown; null = its time was over
--   unknown  certainly not claimed
--   cold     no record, which proves nothing; epoch and barrier of the bucket, null = none
SELECT
  CASE WHEN c.txn_id IS NOT NULL THEN 'pending'
    WHEN m.warm OR m.since + $4 * interval '1 ms' <= asked.at THEN 'unknown'
    ELSE 'cold' END AS outcome,
  c.partner, c.kind, c.accepted_at,
  CASE WHEN c.state <> 'completed'
    THEN round(extract(epoch FROM c.lease_until - asked.at) * 1000)::double precision
  END AS lease_left_ms,
  s.shown, m.epoch::text AS epoch, m.barrier
FROM (SELECT clock_timestamp() AS at) AS asked
LEFT JOIN claims AS c ON c.namespace = $1 AND c.txn_id = $2 AND c.expires_at > asked.at
LEFT JOIN claims_shown AS s ON s.namespace = $1 AND s.txn_id = $2 AND s.expires_at > asked.at
LEFT JOIN warm_markers AS m ON m.namespace = $1 AND m.bucket = $3 AND m.history = current_history()

-- name: walk
-- Some claims in the order of their ids, for whoever compares all of them with the ledger. Writes
-- nothing, and needs no right to.
--
-- $1 namespace, $2 txn_id behind which to go on, null = from the first, $3 rows at most.
-- A row: a claim, and whether it is completed and lives. Fewer rows than $3: they were the last.
SELECT
  txn_id, partner, encode(fingerprint, 'hex') AS fingerprint, accepted_at,
  coalesce(record_key, txn_id) AS record_key,
  state = 'completed' AND expires_at > clock_timestamp() AS is_completed
FROM claims.claims
WHERE namespace = $1 AND txn_id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY txn_id
LIMIT $3

-- name: renewShown
-- Has what reads show of some claims begin its short time anew, where less than half of it is left,
-- it is not over, and their partners have room for it.
--
-- $1 namespace, $2 their ids, $3 their partners, $4 their buckets, $5 life of claims, $6 the time,
-- in milliseconds, $7 how many bytes may be shown of a partner's in a bucket. New claims have half
-- of them for themselves, so that a ledger that is behind for long stops no payment.
WITH asked AS MATERIALIZED (
  SELECT clock_timestamp() AS at
),
named AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::text[], $4::smallint[]) AS n (txn_id, partner, bucket)
),
-- In one order, so that two who renew do not wait in a circle.
held AS MATERIALIZED (
  SELECT h.partner, h.bucket, held_at(h, asked.at, $5, $6) AS now FROM claims_held AS h, asked
  WHERE h.namespace = $1 AND (h.partner, h.bucket) IN (SELECT partner, bucket FROM named)
  ORDER BY h.partner, h.bucket
  FOR NO KEY UPDATE OF h
),
due AS MATERIALIZED (
  SELECT s.txn_id, h.partner, h.bucket, h.now, octet_length(s.shown) AS bytes,
    sum(octet_length(s.shown)) OVER (PARTITION BY h.partner, h.bucket ORDER BY s.txn_id) AS all_bytes
  FROM claims_shown AS s JOIN named AS n USING (txn_id) JOIN held AS h USING (partner, bucket), asked
  WHERE s.namespace = $1 AND s.expires_at > asked.at
    AND s.expires_at <= asked.at + $6 / 2 * interval '1 ms'
),
renewed AS (
  UPDATE claims_shown AS s SET expires_at = asked.at + $6 * interval '1 ms'
  FROM due, asked
  WHERE s.namespace = $1 AND s.txn_id = due.txn_id
    AND has_room(due.now, 0, 0, due.all_bytes::bigint, $7::bigint / 2)
  RETURNING due.partner, due.bucket, due.now, due.bytes
)
UPDATE claims_held AS h SET
  claims = (r.now).claims, hour = (r.now).hour, began = (r.now).began, stretch = (r.now).stretch,
  shown = (r.now).shown + r.bytes, shown_before = (r.now).shown_before
FROM (SELECT partner, bucket, now, sum(bytes) AS bytes FROM renewed GROUP BY 1, 2, 3) AS r
WHERE h.namespace = $1 AND h.partner = r.partner AND h.bucket = r.bucket

-- name: reap
-- Takes out what reads showed for its time, and claims that expired more than an hour ago, oldest
-- first.
--
-- $1 rows at most, of either.
-- Always one row: how many left. 0: none is old enough.
SELECT reap_claims($1) AS reaped
