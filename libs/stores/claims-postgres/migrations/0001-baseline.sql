-- Guard 1 in PostgreSQL.

-- One row per claimed id. A row is changed twice in its short life, so pages keep room for the new
-- versions, and vacuum comes early.
CREATE TABLE claims (
  namespace text NOT NULL,
  txn_id uuid NOT NULL,
  fingerprint bytea NOT NULL,
  state text NOT NULL CHECK (state IN ('in-flight', 'released', 'completed')),
  -- Random for every claim: whoever completes or releases has to show it.
  owner uuid NOT NULL,
  lease_until timestamptz NOT NULL,
  -- When the id was first claimed. The reaper goes by it, because it stays as it is: an index on
  -- what every completion changes would get an entry more for each.
  claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- 24 hours after it was completed, or was last claimed.
  expires_at timestamptz NOT NULL,
  partner text NOT NULL,
  accepted_at timestamptz NOT NULL,
  kind text NOT NULL,
  -- The form in which the 202 is rendered anew for every retry: nothing of the answer is kept.
  response_version smallint NOT NULL,
  -- The key of its record in the accepted topic, where that is not the id.
  record_key uuid,
  PRIMARY KEY (namespace, txn_id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX claims_by_age ON claims (claimed_at);

-- What a read shows of a claim while the ledger has no row: JSON, kept as text to give back the same
-- bytes. A row lives for a minute, or as long as the ledger is behind. Unlogged, because a crash
-- that empties it costs a read that has to be repeated, and else every body would be in the WAL.
CREATE UNLOGGED TABLE claims_shown (
  namespace text NOT NULL,
  txn_id uuid NOT NULL,
  shown text NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (namespace, txn_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX claims_shown_by_end ON claims_shown (expires_at);

-- What each partner holds in each bucket, so that it fills nobody else's store: one row, which the
-- statement that claims locks and counts in. A bound holds however many claim at once, and nobody
-- counts rows. By bucket, so that a 64th of a partner's claims wait for one another. Updates stay in
-- their page, whose room is kept free for them.
CREATE TABLE claims_held (
  namespace text NOT NULL,
  partner text NOT NULL,
  bucket smallint NOT NULL,
  -- How many claims may live: those of the newest hour (since 1970) in which one began and of each
  -- hour before it, newest first. An hour leaves the count as a whole, once the last of its claims may be over.
  claims integer NOT NULL,
  hour integer NOT NULL,
  began integer[] NOT NULL,
  -- The newest stretch of time, as long as the life of what a read shows; bytes that were written in
  -- it to be shown, and in the one before it.
  stretch bigint NOT NULL,
  shown bigint NOT NULL,
  shown_before bigint NOT NULL,
  PRIMARY KEY (namespace, partner, bucket)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.02);

-- The row as it is at a time, without the hours and stretches that are over by then; a new one of no
-- count when it is null. A clock that was set back counts into what is newest.
CREATE FUNCTION held_at(
  held claims_held, at timestamptz, life_ms double precision, shown_ms double precision
) RETURNS claims_held
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  hours integer := ceil(life_ms / 3600000) + 1;
  later integer := floor(extract(epoch FROM at) / 3600) - held.hour;
  next bigint := floor(extract(epoch FROM at) * 1000 / shown_ms) - held.stretch;
BEGIN
  IF later > 0 THEN
    held.hour := held.hour + later;
    held.began := (array_fill(0, ARRAY[least(later, hours)]) || held.began)[:hours];
    held.claims := (SELECT sum(each) FROM unnest(held.began) AS each);
  END IF;
  IF next > 0 THEN
    held.stretch := held.stretch + next;
    held.shown_before := CASE next WHEN 1 THEN held.shown ELSE 0 END;
    held.shown := 0;
  END IF;
  RETURN held;
END
$$;

-- Whether so much more may be held. Without a claim only the bytes are looked at.
CREATE FUNCTION has_room(
  held claims_held, claims integer, claims_max bigint, bytes bigint, bytes_max bigint
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN (claims = 0 OR held.claims + claims <= claims_max)
    AND held.shown + held.shown_before + bytes <= bytes_max;
END
$$;

-- Since when each bucket remembers every claim without a gap. A bucket without a row is cold.
CREATE TABLE warm_markers (
  namespace text NOT NULL,
  bucket smallint NOT NULL,
  -- Names the time since the last loss; random.
  epoch uuid NOT NULL,
  -- The history of the server that has remembered since then: see current_history().
  history text NOT NULL,
  since timestamptz NOT NULL,
  -- What the ledger must have passed; null until somebody has read it.
  barrier text,
  -- Nothing had ever been accepted before the epoch.
  warm boolean NOT NULL DEFAULT false,
  PRIMARY KEY (namespace, bucket)
);

-- Names the history that this server goes on with: the cluster and its timeline. A standby that was
-- promoted and a server restored to a point in time begin a new timeline, and either may have lost
-- commits that were acknowledged before.
CREATE FUNCTION current_history() RETURNS text
LANGUAGE sql VOLATILE AS $$
  SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  FROM pg_control_system()
$$;

-- Takes out what was shown for its time, and claims that expired more than an hour ago, oldest
-- first. Returns how many; 0 means that there are none. The hour keeps a row that a statement under
-- way has seen alive from being gone when it writes; a claim is no younger than its life and that
-- hour. The role of the claims may delete through this function only.
CREATE FUNCTION reap_claims(rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = claims, pg_temp AS $$
DECLARE
  unshown integer;
  reaped integer;
BEGIN
  DELETE FROM claims_shown WHERE (namespace, txn_id) IN (
    SELECT namespace, txn_id FROM claims_shown
    WHERE expires_at < clock_timestamp()
    ORDER BY expires_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS unshown = ROW_COUNT;
  DELETE FROM claims WHERE (namespace, txn_id) IN (
    SELECT namespace, txn_id FROM claims
    WHERE claimed_at < clock_timestamp() - interval '25 hours'
      AND expires_at < clock_timestamp() - interval '1 hour'
    ORDER BY claimed_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS reaped = ROW_COUNT;
  -- What has counted nothing for more than a day; who claims makes it anew.
  DELETE FROM claims_held WHERE (namespace, partner, bucket) IN (
    SELECT namespace, partner, bucket FROM claims_held
    WHERE hour < extract(epoch FROM clock_timestamp()) / 3600 - 26
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  RETURN unshown + reaped;
END
$$;

REVOKE EXECUTE ON FUNCTION reap_claims(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reap_claims(integer) TO triplock_claims;
GRANT SELECT, INSERT, UPDATE ON claims, claims_shown, claims_held, warm_markers TO triplock_claims;
-- The auditor compares what was promised with the ledger. Tokens, and what a partner wrote, are none
-- of its business.
GRANT SELECT (namespace, txn_id, fingerprint, state, expires_at, partner, accepted_at, record_key)
ON claims TO triplock_auditor;
