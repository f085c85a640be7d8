-- One schema and one role per owner. A role sees its own schema; what it may see of another is
-- granted where that other's tables are made. Passwords are set by whoever deploys.
-- Roles belong to the whole server, so a second database on it finds them already there.
DO $$
DECLARE role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY[
    'triplock_ledger', 'triplock_gateway', 'triplock_partners', 'triplock_notifier', 'triplock_auditor'
  ] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I LOGIN', role_name);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;
    END;
  END LOOP;
END
$$;

CREATE SCHEMA ledger;
CREATE SCHEMA partners;
CREATE SCHEMA notifier;
CREATE SCHEMA auditor;

GRANT USAGE ON SCHEMA ledger TO triplock_ledger, triplock_gateway, triplock_auditor;
GRANT USAGE ON SCHEMA partners TO triplock_partners, triplock_gateway, triplock_notifier, triplock_auditor;
GRANT USAGE ON SCHEMA notifier TO triplock_notifier, triplock_auditor;
GRANT USAGE ON SCHEMA auditor TO triplock_auditor;

ALTER ROLE triplock_ledger SET search_path = ledger;
ALTER ROLE triplock_gateway SET search_path = ledger;
ALTER ROLE triplock_partners SET search_path = partners;
ALTER ROLE triplock_notifier SET search_path = notifier;
ALTER ROLE triplock_auditor SET search_path = auditor;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
