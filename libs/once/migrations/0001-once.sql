-- Effects that happen once per key. Whoever has such effects has this table in a schema of its own, so
-- that a key and an effect in the same database commit together; the search_path says whose it is.

-- Grows with every start of any effect, and so tells an old owner from a newer one.
CREATE SEQUENCE once_fence;

CREATE TABLE once (
  -- What a key belongs to: a consumer, a route, a job.
  scope text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  state text NOT NULL CHECK (state IN ('in-flight', 'released', 'completed', 'failed')),
  -- Random for every start: whoever renews, releases or finishes has to show it.
  owner uuid NOT NULL,
  fence bigint NOT NULL,
  lease_until timestamptz NOT NULL,
  -- Counted from the first start, however often it was taken over.
  expires_at timestamptz NOT NULL,
  -- The result, or the failure, as JSON text: given back byte for byte.
  result text,
  PRIMARY KEY (scope, key),
  CHECK ((state IN ('completed', 'failed')) = (result IS NOT NULL))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX once_by_expiry ON once (expires_at);
