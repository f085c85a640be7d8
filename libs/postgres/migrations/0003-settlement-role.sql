-- The schema and the role of the settlement feed. The password is set by whoever deploys; roles belong
-- to the whole server, so it may be there already.
DO $$
BEGIN
  CREATE ROLE triplock_settlement LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;
END
$$;

CREATE SCHEMA settlement;
GRANT USAGE ON SCHEMA settlement TO triplock_settlement, triplock_gateway, triplock_auditor;
ALTER ROLE triplock_settlement SET search_path = settlement;
