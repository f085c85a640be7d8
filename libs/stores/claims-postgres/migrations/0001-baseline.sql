-- Guard 1 in PostgreSQL.

-- One row per claimed id. A row is changed twice in its short life, so pages keep room for the new
-- versions, and vacuum comes early.
CREATE TABLE claims (
  namespace text NOT NULL,
  txn_id uuid NOT NULL,
  fingerprint text NOT NULL,
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
  -- What a read shows while the payment is pending: JSON, kept as text to give back the same bytes.
  shown text NOT NULL,
  status smallint,
  location text,
  body text,
  PRIMARY KEY (namespace, txn_id),
  CHECK ((state = 'completed') = (status IS NOT NULL)),
  CHECK (num_nulls(status, location, body) IN (0, 3))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX claims_by_age ON claims (claimed_at);

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

-- Takes claims out that expired more than an hour ago, oldest first. Returns how many; 0 means that
-- none did. The hour keeps a row that a statement under way has seen alive from being gone when it
-- writes; a claim is no younger than its life and that hour. The role of the claims may delete
-- through this function only.
CREATE FUNCTION reap_claims(rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = claims, pg_temp AS $$
DECLARE
  reaped integer;
BEGIN
  DELETE FROM claims WHERE (namespace, txn_id) IN (
    SELECT namespace, txn_id FROM claims
    WHERE claimed_at < clock_timestamp() - interval '25 hours'
      AND expires_at < clock_timestamp() - interval '1 hour'
    ORDER BY claimed_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS reaped = ROW_COUNT;
  RETURN reaped;
END
$$;

REVOKE EXECUTE ON FUNCTION reap_claims(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reap_claims(integer) TO triplock_claims;
GRANT SELECT, INSERT, UPDATE ON claims, warm_markers TO triplock_claims;
-- The auditor compares what was promised with the ledger. Tokens and answers are none of its business.
GRANT SELECT (namespace, txn_id, fingerprint, state, expires_at, partner, accepted_at, shown)
ON claims TO triplock_auditor;
