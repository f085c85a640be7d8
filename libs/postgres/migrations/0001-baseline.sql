-- Who works in the database: one role and one schema per owner, the superuser migrates. Here are
-- those of the libs, and the auditor's role; service-schema makes those of each service that declares
-- a schema.
--
-- A role sees its own schema; what it may see of another's is granted where that other's tables are
-- made. Passwords are set by whoever deploys. Roles belong to the whole server, so a second
-- database on it finds them already there.
--
-- | role                | works as                                                                 |
-- | triplock_ledger     | ledger worker: posts, charges and settles                                |
-- | triplock_dispatcher | outbox dispatcher: marks events as published, and sees no transaction    |
-- | triplock_copy       | auditor, where it keeps a copy of a ledger that is in another store      |
-- | triplock_gateway    | ingest gateway: reads, and writes nothing but partners' webhook settings |
-- | triplock_claims     | ingest gateway, where claims are kept in PostgreSQL                      |
-- | triplock_partners   | the operators' commands for partners and their keys                      |
-- | triplock_operator   | the console's acts: gives back what was set aside, acknowledges a loss   |
-- | triplock_auditor    | auditor: reads everything, and writes its own evidence                   |
--
-- Which of them may connect to the database at all, and how often, is no migration: a dump does not
-- keep it (libs/postgres/access.ts).
DO $$
DECLARE role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY[
    'triplock_ledger', 'triplock_dispatcher', 'triplock_gateway',
    'triplock_claims', 'triplock_partners', 'triplock_operator', 'triplock_auditor'
  ] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I LOGIN', role_name);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;
    END;
  END LOOP;
  -- It writes a ledger, so it logs in where there is one to copy alone (libs/postgres/access.ts).
  BEGIN
    CREATE ROLE triplock_copy NOLOGIN;
  EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
  END;
END
$$;

CREATE SCHEMA ledger;
CREATE SCHEMA claims;
CREATE SCHEMA partners;
CREATE SCHEMA webhooks;

GRANT USAGE ON SCHEMA ledger
TO triplock_ledger, triplock_dispatcher, triplock_copy, triplock_gateway, triplock_auditor;
GRANT USAGE ON SCHEMA claims TO triplock_claims, triplock_auditor;
GRANT USAGE ON SCHEMA partners TO triplock_partners, triplock_gateway, triplock_auditor;
GRANT USAGE ON SCHEMA webhooks TO triplock_gateway, triplock_operator, triplock_auditor;

ALTER ROLE triplock_ledger SET search_path = ledger;
ALTER ROLE triplock_dispatcher SET search_path = ledger;
ALTER ROLE triplock_copy SET search_path = ledger;
ALTER ROLE triplock_gateway SET search_path = ledger;
ALTER ROLE triplock_claims SET search_path = claims;
ALTER ROLE triplock_partners SET search_path = partners;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- What PostgreSQL lets every role call, and none of ours has to. A lock by number is anybody's: one
-- service could hold those of another, or the migrations', for ever; they are taken by functions of ours
-- alone, which name what they lock. Large objects are a place to put things that no right bounds, and
-- so is the write-ahead log, into which a role that may write no row could have messages written.
--
-- Only who owns these functions takes them away, which is a superuser: any other owner is warned, and
-- they stay open (docs/operating.md, "The database's schema and roles").
DO $$
DECLARE
  routine text;
BEGIN
  FOR routine IN
    SELECT format('pg_catalog.%I(%s)', proname, pg_get_function_identity_arguments(oid))
    FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace
      AND proname ~ '^(pg_(try_)?advisory_|lo_|lo(read|write)$|pg_logical_emit_message$)'
      AND has_function_privilege('public', oid, 'EXECUTE')
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', routine);
  END LOOP;
END
$$;
