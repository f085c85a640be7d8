-- Who may use the console, their sessions, and what they did; then what the console may read of the
-- system, and what its acts may change there.

-- No token is stored: what is kept is SHA-256 of SHA-256 of it, and the console sends the inner one. So
-- the server's log of statements has no token, and what a backup has opens no session here either. A
-- token is random enough to need no salt. Only the database's owner makes operators
-- (`npm run operators`).
CREATE TABLE operators (
  operator text PRIMARY KEY CHECK (operator ~ '^[a-z0-9][a-z0-9._@-]{0,62}$'),
  role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  token_hash bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  added_at timestamptz NOT NULL DEFAULT now(),
  -- Null while the token is good.
  revoked_at timestamptz
);

-- A session holds as long as the token that it began with: rotating or revoking that ends it. Its
-- secret is kept as tokens are.
CREATE TABLE sessions (
  session_hash bytea PRIMARY KEY CHECK (length(session_hash) = 32),
  operator text NOT NULL REFERENCES operators,
  token_hash bytea NOT NULL,
  begun_at timestamptz NOT NULL DEFAULT now(),
  -- To the minute, so that a page that looks every second writes nothing.
  seen_at timestamptz NOT NULL DEFAULT now()
);

-- A session ends after a day's work, and when nobody used it for an hour.
CREATE VIEW live_sessions AS
SELECT session_hash, operator, role, seen_at
FROM console.sessions JOIN console.operators USING (operator, token_hash)
WHERE revoked_at IS NULL
  AND begun_at > now() - interval '12 hours' AND seen_at > now() - interval '1 hour';

-- The console's role sees neither table. It asks these functions, which say whose a token or a session
-- is to who has it: a console in other hands, or its password, makes nobody an operator.

-- $1 SHA-256 of a token. A row: the operator whose good token it is. No row: nobody's.
CREATE FUNCTION whose_token(proof bytea, OUT operator text, OUT role text) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT operators.operator, operators.role FROM console.operators
  WHERE token_hash = sha256(proof) AND revoked_at IS NULL
$$;

-- Begins a session by a token that is good, and forgets those that have ended.
--
-- $1 SHA-256 of the session's secret, $2 of the token. A row: it has begun. No row: the token is
-- nobody's.
CREATE FUNCTION begin_session(session_proof bytea, token_proof bytea, OUT operator text)
RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM console.sessions
  WHERE session_hash NOT IN (SELECT session_hash FROM console.live_sessions);
  INSERT INTO console.sessions (session_hash, operator, token_hash)
  SELECT sha256(session_proof), operators.operator, token_hash FROM console.operators
  WHERE token_hash = sha256(token_proof) AND revoked_at IS NULL
  RETURNING sessions.operator
$$;

-- $1 SHA-256 of a session's secret, which is used now. A row: its operator, with the role that they
-- have now. No row: it has ended, or never was.
CREATE FUNCTION whose_session(proof bytea, OUT operator text, OUT role text) RETURNS SETOF record
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH found AS (
    SELECT * FROM console.live_sessions WHERE session_hash = sha256(proof)
  ), noted AS (
    UPDATE console.sessions SET seen_at = now() FROM found
    WHERE sessions.session_hash = found.session_hash
      AND found.seen_at < now() - interval '1 minute'
  )
  SELECT found.operator, found.role FROM found
$$;

-- $1 SHA-256 of a session's secret. Twice is harmless.
CREATE FUNCTION end_session(proof bytea) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM console.sessions WHERE session_hash = sha256(proof)
$$;

-- Their owner can do this and nothing else, and nobody logs in as it. Whoever migrates is no
-- superuser everywhere: only a member hands a function over, and only to who may make one there.
DO $$
BEGIN
  BEGIN
    CREATE ROLE triplock_sessions NOLOGIN;
  EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
  END;
  IF NOT pg_has_role(current_user, 'triplock_sessions', 'USAGE') THEN
    EXECUTE format('GRANT triplock_sessions TO %I', current_user);
  END IF;
END
$$;
GRANT USAGE, CREATE ON SCHEMA console TO triplock_sessions;
GRANT SELECT (operator, role, token_hash, revoked_at) ON operators TO triplock_sessions;
GRANT SELECT, INSERT (session_hash, operator, token_hash), UPDATE (seen_at), DELETE ON sessions
TO triplock_sessions;
GRANT SELECT ON live_sessions TO triplock_sessions;
REVOKE EXECUTE ON FUNCTION whose_token(bytea), begin_session(bytea, bytea), whose_session(bytea),
  end_session(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION whose_token(bytea), begin_session(bytea, bytea), whose_session(bytea),
  end_session(bytea) TO triplock_console;
ALTER FUNCTION whose_token(bytea) OWNER TO triplock_sessions;
ALTER FUNCTION begin_session(bytea, bytea) OWNER TO triplock_sessions;
ALTER FUNCTION whose_session(bytea) OWNER TO triplock_sessions;
ALTER FUNCTION end_session(bytea) OWNER TO triplock_sessions;
REVOKE CREATE ON SCHEMA console FROM triplock_sessions;

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

GRANT SELECT ON acts TO triplock_console;
GRANT INSERT (form, act, target, done_by, role, why), UPDATE (outcome, detail, finished_at) ON acts
TO triplock_console;

-- What it may read of the system. It writes nothing there: what operators do is done by the role of
-- each kind of act.
GRANT USAGE ON SCHEMA ledger, partners, webhooks, consumers, auditor TO triplock_console;
GRANT SELECT ON ALL TABLES IN SCHEMA ledger, consumers, auditor TO triplock_console;
GRANT SELECT ON partners.partners, partners.shown_webhook_endpoints, partners.endpoint_tests, partners.acts,
  partners.settlement_batches, partners.settlement_calendar, webhooks.deliveries,
  webhooks.delivery_attempts
TO triplock_console;
-- Keys by what may be shown of them.
GRANT SELECT (partner_id, prefix, scope, created_at, expires_at, last_used_at, revoked_at)
ON partners.api_keys TO triplock_console;
-- Claims as the auditor sees them: what partners wrote is none of its business.
GRANT USAGE ON SCHEMA claims TO triplock_console;
GRANT SELECT (namespace, txn_id, fingerprint, state, expires_at, partner, accepted_at, record_key)
ON claims.claims TO triplock_console;

-- What gives back or dismisses what was set aside, and acknowledges a loss: the rows that the
-- statements of libs/inspect/dead-letter-acts.sql and operator-acts.sql change, and what they
-- look at for it.
GRANT USAGE ON SCHEMA ledger, auditor TO triplock_operator;
GRANT SELECT ON ledger.transactions, ledger.outbox, ledger.outbox_horizon TO triplock_operator;
GRANT UPDATE (due_at) ON ledger.transactions TO triplock_operator;
GRANT UPDATE (state, parked_reason) ON ledger.outbox TO triplock_operator;
GRANT SELECT ON auditor.accepted, auditor.accepted_lost, auditor.accepted_refused, auditor.dead_letters,
  auditor.claims_unaccounted, auditor.waiting_outside
TO triplock_operator;
GRANT SELECT, INSERT (act, subject, done_by, why) ON auditor.operator_acts TO triplock_operator;
GRANT EXECUTE ON FUNCTION auditor.lock_subject(text) TO triplock_operator;
