-- What the provider tells: an inbox for its events, whose one effect is that a pending row is due.

-- One row per event that let a row be due. Without it a copy would let it be due once more, which
-- costs a question to the provider and nothing else, so rows may leave after a while.
CREATE TABLE ledger.provider_events (
  provider text NOT NULL,
  event_id text NOT NULL,
  event_type text NOT NULL,
  intent_id text NOT NULL,
  received_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (provider, event_id)
);

CREATE INDEX provider_events_by_age ON ledger.provider_events (received_at);
CREATE INDEX transactions_by_intent ON ledger.transactions (provider_intent_id)
  WHERE provider_intent_id IS NOT NULL;

-- Takes out up to `rows_max` events that came more than 30 days ago: a provider gives up telling
-- after days, and signs what it tells for minutes.
CREATE FUNCTION ledger.reap_provider_events(rows_max integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
  DELETE FROM ledger.provider_events WHERE (provider, event_id) IN (
    SELECT provider, event_id FROM ledger.provider_events
    WHERE received_at < now() - interval '30 days'
    ORDER BY received_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  )
$$;

-- A row that is let be due keeps its version: whoever is at work on it need not begin again. That is
-- the one change that does not count; everything else is as it was.
CREATE OR REPLACE FUNCTION ledger.guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ROW(NEW.txn_id, NEW.kind, NEW.partner_id, NEW.idempotency_key, NEW.fingerprint,
         NEW.response_version, NEW.payment_id, NEW.requested_amount, NEW.payment_method,
         NEW.reference, NEW.description, NEW.metadata, NEW.reason, NEW.created_at)
     IS DISTINCT FROM
     ROW(OLD.txn_id, OLD.kind, OLD.partner_id, OLD.idempotency_key, OLD.fingerprint,
         OLD.response_version, OLD.payment_id, OLD.requested_amount, OLD.payment_method,
         OLD.reference, OLD.description, OLD.metadata, OLD.reason, OLD.created_at) THEN
    RAISE EXCEPTION 'transaction %: what was asked for never changes', OLD.txn_id;
  END IF;
  IF OLD.amount IS NOT NULL
     AND ROW(NEW.amount, NEW.currency) IS DISTINCT FROM ROW(OLD.amount, OLD.currency) THEN
    RAISE EXCEPTION 'transaction %: an amount never changes', OLD.txn_id;
  END IF;
  IF OLD.provider_intent_id IS NOT NULL
     AND ROW(NEW.provider, NEW.provider_intent_id)
     IS DISTINCT FROM ROW(OLD.provider, OLD.provider_intent_id) THEN
    RAISE EXCEPTION 'transaction %: a stored intent never changes', OLD.txn_id;
  END IF;
  IF OLD.state <> 'pending'
     AND ROW(NEW.state, NEW.settled_at, NEW.failure_code, NEW.failure_message, NEW.amount,
             NEW.currency, NEW.provider, NEW.provider_intent_id, NEW.provider_charge_id,
             NEW.provider_refund_id)
     IS DISTINCT FROM
     ROW(OLD.state, OLD.settled_at, OLD.failure_code, OLD.failure_message, OLD.amount,
         OLD.currency, OLD.provider, OLD.provider_intent_id, OLD.provider_charge_id,
         OLD.provider_refund_id) THEN
    RAISE EXCEPTION 'transaction %: what is final never changes', OLD.txn_id;
  END IF;
  IF NEW.version < OLD.version OR NEW.events < OLD.events THEN
    RAISE EXCEPTION 'transaction %: versions and events never shrink', OLD.txn_id;
  END IF;
  IF NEW.version = OLD.version
     AND to_jsonb(NEW) - 'due_at' IS DISTINCT FROM to_jsonb(OLD) - 'due_at' THEN
    RAISE EXCEPTION 'transaction %: version grows with every change, events never shrink', OLD.txn_id;
  END IF;
  RETURN NEW;
END
$$;

GRANT SELECT, INSERT ON ledger.provider_events TO triplock_ledger;
GRANT SELECT ON ledger.provider_events TO triplock_auditor;
REVOKE EXECUTE ON FUNCTION ledger.reap_provider_events(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.reap_provider_events(integer) TO triplock_ledger;
