-- A delivery is the notifier's effect of an event: it commits with the event's inbox row, and
-- sending is a loop of its own.

CREATE TABLE deliveries (
  -- The webhook-id on every attempt.
  event_id uuid PRIMARY KEY,
  partner_id text NOT NULL,
  txn_id uuid NOT NULL,
  -- The webhook's body, the same bytes on every attempt.
  body text NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
  -- Attempts begun. It grows with every lease, so it is also the fence: a sender that was
  -- overtaken holds an older number and records nothing.
  attempts integer NOT NULL DEFAULT 0,
  -- While a sender is at work this is the end of its lease.
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  lease_owner text,
  first_attempt_at timestamptz,
  last_status integer,
  last_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  CHECK ((state = 'pending') = (finished_at IS NULL))
);

-- What is due, partner by partner, so that one with a long queue is not read through for another.
CREATE INDEX deliveries_due ON deliveries (partner_id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX deliveries_by_transaction ON deliveries (txn_id);

-- What every recorded attempt came to.
CREATE TABLE delivery_attempts (
  event_id uuid NOT NULL REFERENCES deliveries,
  attempt integer NOT NULL,
  -- The receiver's answer, or null when there was none.
  status integer,
  error text,
  took_ms integer NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, attempt)
);

GRANT SELECT, INSERT, UPDATE ON deliveries TO triplock_notifier;
GRANT SELECT, INSERT ON delivery_attempts TO triplock_notifier;
GRANT SELECT ON deliveries, delivery_attempts TO triplock_auditor;
