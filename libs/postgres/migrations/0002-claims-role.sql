-- The schema and the role of guard 1, where claims are kept in PostgreSQL. The password is set by
-- whoever deploys; roles belong to the whole server, so it may be there already.
DO $$
BEGIN
  CREATE ROLE triplock_claims LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;
END
$$;

CREATE SCHEMA claims;
GRANT USAGE ON SCHEMA claims TO triplock_claims;
ALTER ROLE triplock_claims SET search_path = claims;
