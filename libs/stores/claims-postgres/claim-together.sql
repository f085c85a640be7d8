-- Claims several transaction ids at once: what claim.sql does for each, where that is decided
-- without meeting anybody. One atomic step, and one commit for all of them.
--
-- $1 namespace; of each claim, in arrays: $2 txn_id, $3 its bucket, $4 owner token, $5 fingerprint,
-- $6 partner, $7 kind, $8 accepted-at, $9 version of the answer's form, $10 key of its record in
-- the topic, $11 what a read shows while the ledger has no row, $12 epoch in which the ledger was
-- asked, null = it was not; $13 lease, $14 life of the record, $15 life of what a read shows, in
-- milliseconds, $16 claims that a partner may hold in a bucket, $17 bytes to be shown of them.
--
-- A row for each that is decided, with its place in the arrays, from 1, as `nth`, and with
-- `outcome`, as of claim.sql: claimed, completed, reused, in-flight or cold. No row for one that
-- nothing was written for and that claim.sql has to decide alone: a takeover, a row that expired,
-- an id that is in the batch before, one that another statement has just claimed, a partner's first
-- claim in a bucket, and all of a partner's in a bucket where there is no room for all of them.
--
-- The checks, their order and the clock are those of claim.sql. Locks too are taken in its order,
-- claims_held, claims, claims_shown, and in each by key: so no two batches wait in a circle. The
-- sort before the claims are written has all of what is held locked first.
WITH asked AS MATERIALIZED (
  SELECT clock_timestamp() AS at, current_history() AS history
),
named AS MATERIALIZED (
  SELECT *
  FROM unnest($2::uuid[], $3::smallint[], $4::uuid[], $5::text[], $6::text[], $7::text[],
    $8::timestamptz[], $9::smallint[], $10::uuid[], $11::text[], $12::text[]
  ) WITH ORDINALITY AS n (txn_id, bucket, owner, fingerprint, partner, kind, accepted_at,
    response_version, record_key, shown, checked_in, nth)
),
found AS MATERIALIZED (
  SELECT n.nth, c.state, c.accepted_at, c.response_version, c.lease_until, c.expires_at,
    c.fingerprint <> decode(n.fingerprint, 'hex') AS is_reused,
    c.state = 'in-flight' AND c.lease_until > asked.at AND c.owner <> n.owner AS is_at_work
  FROM claims AS c JOIN named AS n USING (txn_id), asked
  WHERE c.namespace = $1 AND c.txn_id = ANY ($2) AND c.expires_at > asked.at
),
marker AS MATERIALIZED (
  SELECT m.bucket, m.epoch, m.barrier,
    m.warm OR m.since + $14 * interval '1 ms' <= asked.at AS is_whole
  FROM warm_markers AS m, asked
  WHERE m.namespace = $1 AND m.bucket = ANY ($3) AND m.history = asked.history
),
unknown AS MATERIALIZED (
  SELECT n.*, m.epoch, m.barrier,
    (m.is_whole OR m.epoch::text = n.checked_in) IS TRUE AS is_free
  FROM named AS n LEFT JOIN marker AS m USING (bucket)
  WHERE n.nth NOT IN (SELECT nth FROM found)
),
due AS MATERIALIZED (
  SELECT DISTINCT ON (txn_id) * FROM unknown WHERE is_free ORDER BY txn_id, nth
),
-- Out of each row itself, so that it is of the version that was locked.
room AS MATERIALIZED (
  SELECT d.partner, d.bucket, h.now
  FROM asked, (
    SELECT partner, bucket, count(*)::integer AS claims, sum(octet_length(shown)) AS bytes
    FROM due GROUP BY partner, bucket ORDER BY partner, bucket
  ) AS d
  CROSS JOIN LATERAL (
    SELECT held_at(h, asked.at, $14, $15) AS now FROM claims_held AS h
    WHERE h.namespace = $1 AND h.partner = d.partner AND h.bucket = d.bucket
      AND has_room(held_at(h, asked.at, $14, $15), d.claims, $16, d.bytes, $17)
    FOR NO KEY UPDATE
  ) AS h
),
written AS (
  INSERT INTO claims (
    namespace, txn_id, fingerprint, state, owner, lease_until, expires_at,
    partner, kind, accepted_at, response_version, record_key
  )
  SELECT $1, txn_id, decode(fingerprint, 'hex'), 'in-flight', owner,
    asked.at + $13 * interval '1 ms', asked.at + $14 * interval '1 ms',
    partner, kind, accepted_at, response_version, nullif(record_key, txn_id)
  FROM due JOIN room USING (partner, bucket), asked
  ORDER BY txn_id
  ON CONFLICT (namespace, txn_id) DO NOTHING
  RETURNING txn_id
),
made AS MATERIALIZED (
  SELECT due.* FROM written JOIN due USING (txn_id)
),
more AS MATERIALIZED (
  SELECT partner, bucket, now, claims, bytes
  FROM room JOIN (
    SELECT partner, bucket, count(*)::integer AS claims, sum(octet_length(shown)) AS bytes
    FROM made GROUP BY partner, bucket
  ) AS m USING (partner, bucket)
),
counted AS (
  UPDATE claims_held AS h SET
    claims = (now).claims + more.claims,
    hour = (now).hour,
    began = ARRAY[(now).began[1] + more.claims] || (now).began[2:],
    stretch = (now).stretch,
    shown = (now).shown + more.bytes,
    shown_before = (now).shown_before
  FROM more
  WHERE h.namespace = $1 AND h.partner = more.partner AND h.bucket = more.bucket
),
shown AS (
  INSERT INTO claims_shown AS s (namespace, txn_id, shown, expires_at)
  SELECT $1, txn_id, shown, asked.at + $15 * interval '1 ms' FROM made, asked ORDER BY txn_id
  ON CONFLICT (namespace, txn_id) DO UPDATE SET
    shown = excluded.shown, expires_at = excluded.expires_at
)
SELECT nth::integer, 'claimed' AS outcome, accepted_at, response_version, NULL::float8 AS lease_left_ms,
  NULL::float8 AS life_left_ms, NULL::text AS epoch, NULL AS barrier
FROM made
UNION ALL
SELECT nth::integer,
  CASE WHEN is_reused THEN 'reused' WHEN state = 'completed' THEN 'completed' ELSE 'in-flight' END,
  accepted_at, response_version, extract(epoch FROM lease_until - asked.at) * 1000,
  extract(epoch FROM expires_at - asked.at) * 1000, NULL, NULL
FROM found, asked
WHERE is_reused OR is_at_work OR state = 'completed'
UNION ALL
SELECT nth::integer, 'cold', NULL, NULL, NULL, NULL, epoch::text, barrier
FROM unknown
WHERE NOT is_free
