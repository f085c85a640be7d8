-- Who may use the console, their sessions, and what they did; then what the console may read of the
-- system, and what its acts may change there.

-- A token is never stored, only what SHA-256 makes of it: it is random enough to need no salt. Only
-- the database's owner makes operators (`npm run operators`): a console in other hands makes none.
CREATE TABLE operators (
  operator text PRIMARY KEY CHECK (operator ~ '^[a-z0-9][a-z0-9._@-]{0,62}$'),
  role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  token_sha256 bytea NOT NULL UNIQUE CHECK (length(token_sha256) = 32),
  added_at timestamptz NOT NULL DEFAULT now(),
  -- Null while the token is good.
  revoked_at timestamptz
);

-- A session holds as long as the token that it began with: rotating or revoking that ends it.
CREATE TABLE sessions (
  session_sha256 bytea PRIMARY KEY CHECK (length(session_sha256) = 32),
  operator text NOT NULL REFERENCES operators,
  token_sha256 bytea NOT NULL,
  begun_at timestamptz NOT NULL DEFAULT now(),
  -- To the minute, so that a page that looks every second writes nothing.
  seen_at timestamptz NOT NULL DEFAULT now()
);

-- Every act by a page, by the API and on operators: recorded before it begins, finished once.
CREATE TABLE acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Of the form, or of the request, that asked for it: what is sent twice is done once.
  form uuid NOT NULL UNIQUE,
  act text NOT NULL CHECK (act <> ''),
  target text NOT NULL CHECK (length(target) <= 2000),
  done_by text NOT NULL CHECK (done_by <> ''),
  role text NOT NULL,
  why text NOT NULL CHECK (why <> '' AND length(why) <= 500),
  begun_at timestamptz NOT NULL DEFAULT now(),
  -- `begun` until it is known: one that stays so was cut off, and nobody knows how far it came.
  outcome text NOT NULL DEFAULT 'begun' CHECK (
    outcome IN ('begun', 'done', 'nothing', 'refused', 'unknown')
  ),
  -- What came of it, in words; never a secret.
  detail text NOT NULL DEFAULT '',
  finished_at timestamptz,
  CONSTRAINT finished_once CHECK ((outcome = 'begun') = (finished_at IS NULL))
);
CREATE INDEX acts_by_target ON acts (target, act_id);
CREATE INDEX acts_by_operator ON acts (done_by, act_id);
CREATE INDEX acts_by_kind ON acts (act, act_id);
CREATE FUNCTION refuse_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: an act is finished once and kept', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;
CREATE TRIGGER acts_finish_once BEFORE UPDATE ON acts
  FOR EACH ROW WHEN (
    OLD.outcome <> 'begun' OR
    (NEW.act_id, NEW.form, NEW.act, NEW.target, NEW.done_by, NEW.role, NEW.why, NEW.begun_at)
    IS DISTINCT FROM
    (OLD.act_id, OLD.form, OLD.act, OLD.target, OLD.done_by, OLD.role, OLD.why, OLD.begun_at)
  ) EXECUTE FUNCTION refuse_act();
CREATE TRIGGER acts_are_kept BEFORE DELETE OR TRUNCATE ON acts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_act();

GRANT SELECT ON operators, acts TO triplock_console;
GRANT SELECT, INSERT (session_sha256, operator, token_sha256), UPDATE (seen_at), DELETE ON sessions
TO triplock_console;
GRANT INSERT (form, act, target, done_by, role, why), UPDATE (outcome, detail, finished_at) ON acts
TO triplock_console;

-- What it may read of the system. It writes nothing there: what operators do is done by the role of
-- each kind of act.
GRANT USAGE ON SCHEMA ledger, partners, notifier, settlement, auditor TO triplock_console;
GRANT SELECT ON ALL TABLES IN SCHEMA ledger, notifier, settlement, auditor TO triplock_console;
GRANT SELECT ON partners.partners, partners.shown_webhook_endpoints, partners.endpoint_tests, partners.acts
TO triplock_console;
-- Keys by what may be shown of them.
GRANT SELECT (partner_id, prefix, created_at, revoked_at) ON partners.api_keys TO triplock_console;
-- Claims as the auditor sees them: what partners wrote is none of its business.
GRANT USAGE ON SCHEMA claims TO triplock_console;
GRANT SELECT (namespace, txn_id, fingerprint, state, expires_at, partner, accepted_at, record_key)
ON claims.claims TO triplock_console;

-- What gives back or dismisses what was set aside, and acknowledges a loss: the rows that the
-- statements of services/operator/dead-letter-acts.sql and operator-acts.sql change, and what they
-- look at for it.
GRANT USAGE ON SCHEMA ledger, notifier, auditor TO triplock_operator;
GRANT SELECT ON ledger.transactions, ledger.outbox, ledger.outbox_horizon TO triplock_operator;
GRANT UPDATE (due_at) ON ledger.transactions TO triplock_operator;
GRANT UPDATE (state, parked_reason) ON ledger.outbox TO triplock_operator;
GRANT SELECT, UPDATE (state, finished_at, first_attempt_at, next_attempt_at) ON notifier.deliveries
TO triplock_operator;
GRANT SELECT ON notifier.delivery_attempts TO triplock_operator;
GRANT SELECT ON auditor.accepted, auditor.accepted_lost, auditor.accepted_refused, auditor.dead_letters,
  auditor.claims_unaccounted, auditor.waiting_outside, auditor.refused_messages
TO triplock_operator;
GRANT SELECT, INSERT (act, subject, done_by, why) ON auditor.operator_acts TO triplock_operator;
