-- Claims a transaction id for one request, or says who has it. One atomic step.
--
-- $1 namespace, $2 txn_id, $3 its bucket, $4 owner token, new for every request, $5 fingerprint,
-- $6 partner, $7 kind, $8 accepted-at, $9 version of the answer's form, $10 key of its record in
-- the topic, $11 what a read shows while the ledger has no row, $12 lease, $13 life of the record,
-- $14 life of what a read shows, in milliseconds, $15 epoch in which the ledger was asked and has
-- no such id, $16 claims that a partner may hold in a bucket, $17 bytes to be shown of them.
--
-- A row with `outcome`:
--   claimed    ours; accepted_at and response_version of the first claim
--   completed  done before, known for life_left_ms more: of accepted_at, response_version and its
--              own request the caller makes the same answer again
--   reused     another request has this id
--   in-flight  another owner is at work for lease_left_ms
--   cold       no record, which proves nothing; epoch and barrier of the bucket, null = none
--   over-limit not claimed: its partner holds too much, for some retry_after_ms
-- No row: something committed between this statement's look and its write, or it was its partner's
-- first in the bucket, whose row of claims_held it made. Run it again.
-- Only `claimed` writes, but for that row, which counts nothing.
--
-- The order of the checks is the promise: the fingerprint first, so that a reused key is told from
-- a retry in every state of the record. `found` is looked at before anything is locked, so replays
-- and waits write nothing; what ON CONFLICT meets is checked once more, because only there it is
-- sure. A record that expired is none: its row is written over as a first claim's. Every claim
-- begins the record's life anew, so that what is accepted under it is not forgotten sooner. The
-- time is the server's, read once; who waits for a racing claim has an older one, which makes
-- leases look longer and never shorter.
--
-- What the partner holds is locked before the claim is written, and looked at once more where the
-- lock was waited for: so its bounds are exact. It is locked only while there is room: a partner
-- that is refused locks and writes nothing. A takeover is never refused, because its request may
-- be in the topic; without room it shows nothing. Every statement locks in the order claims_held,
-- claims, claims_shown, so that none waits in a circle.
--
-- What a read shows is written by whoever has written the claim. The table is unlogged: a crash of
-- the server may leave a claim without it, and then a read is told to ask again.
WITH asked AS MATERIALIZED (
  SELECT clock_timestamp() AS at
),
found AS MATERIALIZED (
  SELECT c.*,
    c.fingerprint <> decode($5, 'hex') AS is_reused,
    c.state = 'in-flight' AND c.lease_until > asked.at AND c.owner <> $4 AS is_at_work
  FROM claims AS c, asked
  WHERE c.namespace = $1 AND c.txn_id = $2 AND c.expires_at > asked.at
),
marker AS MATERIALIZED (
  SELECT m.epoch, m.barrier, m.warm OR m.since + $13 * interval '1 ms' <= asked.at AS is_whole
  FROM warm_markers AS m, asked
  WHERE m.namespace = $1 AND m.bucket = $3 AND m.history = current_history()
),
due AS MATERIALIZED (
  SELECT CASE WHEN EXISTS (SELECT FROM found) THEN 0 ELSE 1 END AS claims
  WHERE CASE
    WHEN EXISTS (SELECT FROM found) THEN
      EXISTS (SELECT FROM found WHERE NOT is_reused AND NOT is_at_work AND state <> 'completed')
    -- The ledger's answer holds only in the epoch it was asked in.
    ELSE EXISTS (SELECT FROM marker WHERE is_whole OR epoch::text = $15)
  END
),
held AS MATERIALIZED (
  SELECT held_at(h, asked.at, $13, $14) AS now FROM claims_held AS h, asked
  WHERE h.namespace = $1 AND h.partner = $6 AND h.bucket = $3
),
-- Out of the row itself, so that it is of the version that was locked.
room AS MATERIALIZED (
  SELECT held_at(h, asked.at, $13, $14) AS now FROM claims_held AS h, asked, due
  WHERE h.namespace = $1 AND h.partner = $6 AND h.bucket = $3
    AND has_room(held_at(h, asked.at, $13, $14), due.claims, $16, octet_length($11), $17)
  FOR NO KEY UPDATE OF h
),
made AS (
  INSERT INTO claims_held
  SELECT $1, $6, $3, 0, floor(extract(epoch FROM asked.at) / 3600), '{0}', 0, 0, 0 FROM asked, due
  WHERE NOT EXISTS (SELECT FROM held)
  ON CONFLICT DO NOTHING
),
written AS (
  INSERT INTO claims AS c (
    namespace, txn_id, fingerprint, state, owner, lease_until, expires_at,
    partner, kind, accepted_at, response_version, record_key
  )
  SELECT $1, $2, decode($5, 'hex'), 'in-flight', $4, asked.at + $12 * interval '1 ms',
    asked.at + $13 * interval '1 ms', $6, $7, $8, $9, nullif($10::uuid, $2)
  FROM asked, due, held, (SELECT count(*) AS rows FROM room) AS roomy
  WHERE roomy.rows = 1 OR due.claims = 0
  ON CONFLICT (namespace, txn_id) DO UPDATE SET
    fingerprint = excluded.fingerprint,
    state = excluded.state,
    owner = excluded.owner,
    lease_until = excluded.lease_until,
    expires_at = excluded.expires_at,
    partner = CASE WHEN c.expires_at > (SELECT at FROM asked)
      THEN c.partner ELSE excluded.partner END,
    accepted_at = CASE WHEN c.expires_at > (SELECT at FROM asked)
      THEN c.accepted_at ELSE excluded.accepted_at END,
    response_version = CASE WHEN c.expires_at > (SELECT at FROM asked)
      THEN c.response_version ELSE excluded.response_version END,
    record_key = excluded.record_key
  WHERE c.expires_at <= (SELECT at FROM asked)
    OR c.fingerprint = excluded.fingerprint AND (
      c.state = 'released'
      OR c.state = 'in-flight'
        AND (c.lease_until <= (SELECT at FROM asked) OR c.owner = excluded.owner)
    )
  RETURNING c.accepted_at, c.response_version
),
counted AS (
  UPDATE claims_held AS h SET
    claims = (now).claims + due.claims,
    hour = (now).hour,
    began = ARRAY[(now).began[1] + due.claims] || (now).began[2:],
    stretch = (now).stretch,
    shown = (now).shown + octet_length($11),
    shown_before = (now).shown_before
  FROM room, due, written
  WHERE h.namespace = $1 AND h.partner = $6 AND h.bucket = $3
  RETURNING 1
),
shown AS (
  INSERT INTO claims_shown AS s (namespace, txn_id, shown, expires_at)
  SELECT $1, $2, $11, asked.at + $14 * interval '1 ms' FROM counted, asked
  ON CONFLICT (namespace, txn_id) DO UPDATE SET
    shown = excluded.shown, expires_at = excluded.expires_at
)
SELECT 'claimed' AS outcome, accepted_at, response_version, NULL::float8 AS lease_left_ms,
  NULL::float8 AS life_left_ms, NULL::float8 AS retry_after_ms, NULL::text AS epoch, NULL AS barrier
FROM written
UNION ALL
SELECT CASE WHEN is_reused THEN 'reused' WHEN state = 'completed' THEN 'completed' ELSE 'in-flight' END,
  accepted_at, response_version, extract(epoch FROM lease_until - asked.at) * 1000,
  extract(epoch FROM expires_at - asked.at) * 1000, NULL, NULL, NULL
FROM found, asked
WHERE is_reused OR is_at_work OR state = 'completed'
UNION ALL
SELECT 'over-limit', NULL, NULL, NULL, NULL,
  CASE WHEN has_room(now, 1, $16, 0, $17)
    -- The stretch ends, or the oldest hour leaves the count.
    THEN ((now).stretch + 1) * $14
    ELSE ((now).hour + 2 - (
      SELECT max(age) FROM unnest((now).began) WITH ORDINALITY AS each (claims, age) WHERE each.claims > 0
    )) * 3600000 + $13
  END - extract(epoch FROM asked.at) * 1000, NULL, NULL
FROM due, held, asked
WHERE due.claims = 1 AND NOT has_room(now, 1, $16, octet_length($11), $17)
UNION ALL
SELECT 'cold', NULL, NULL, NULL, NULL, NULL, kept.epoch::text, kept.barrier
FROM asked LEFT JOIN marker AS kept ON true
WHERE NOT EXISTS (SELECT FROM found)
  AND (kept.is_whole OR kept.epoch::text = $15) IS NOT TRUE
