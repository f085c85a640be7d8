-- The schema of one service, and the role of the same name that it works as: run once for each that
-- declares a schema, with that schema as search_path. What is in it the service's own migrations
-- make, and its inbox's if it has one.
DO $$
DECLARE
  own_schema text := current_setting('search_path');
  own_role text := 'triplock_' || own_schema;
BEGIN
  BEGIN
    EXECUTE format('CREATE ROLE %I LOGIN', own_role);
  EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
  END;
  EXECUTE format('CREATE SCHEMA %I', own_schema);
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I, triplock_auditor', own_schema, own_role);
  EXECUTE format('ALTER ROLE %I SET search_path = %I', own_role, own_schema);
END
$$;
