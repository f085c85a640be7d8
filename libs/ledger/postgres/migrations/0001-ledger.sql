-- The ledger and its outbox: guard 2, and where guard 3 begins. What is final never changes and
-- history is only added to. Triggers hold that against everyone, the owner and bugs included;
-- rights hold it once more for the roles that services run as.

CREATE TABLE ledger.transactions (
  -- A pure function of (kind, partner_id, idempotency_key): the same request is the same row.
  txn_id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('payment', 'refund')),
  partner_id text NOT NULL,
  idempotency_key text NOT NULL,
  -- SHA-256 of what was asked for: tells a retry from a reused key when Redis has forgotten both.
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  -- Which form the 202 had, so that its bytes can be made again.
  response_version smallint NOT NULL CHECK (response_version >= 1),
  amount bigint NOT NULL CHECK (amount BETWEEN 1 AND 999999999999),
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  -- Null for a book transfer, which no provider is asked about.
  payment_method text,
  reference text,
  description text,
  metadata jsonb CHECK (jsonb_typeof(metadata) = 'object'),
  -- The gateway's clock when it first claimed the key.
  created_at timestamptz(3) NOT NULL,

  state text NOT NULL CHECK (state IN ('pending', 'succeeded', 'failed')),
  -- Grows with every change of the row: a writer that saw an older one writes nothing.
  version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
  -- The sequence of the payment's newest event; the next one is taken under this row's lock.
  events integer NOT NULL CHECK (events >= 0),
  failure_code text,
  failure_message text,
  settled_at timestamptz(3),
  -- The cap on refunds is this column under a guarded update, never a sum over rows.
  refund_reserved bigint NOT NULL DEFAULT 0,
  amount_refunded bigint NOT NULL DEFAULT 0,
  -- The provider and its charge, stored before it is confirmed; null for book transfers.
  provider text,
  provider_intent_id text,

  CONSTRAINT one_transaction_per_key UNIQUE (partner_id, idempotency_key, kind),
  CONSTRAINT settled_when_final CHECK ((state = 'pending') = (settled_at IS NULL)),
  CONSTRAINT failure_when_failed CHECK ((state = 'failed') = (failure_code IS NOT NULL)),
  CONSTRAINT refunds_within_amount
    CHECK (0 <= amount_refunded AND amount_refunded <= refund_reserved AND refund_reserved <= amount)
);

-- Double entry in the form of transfers: a row names both accounts, so debits equal credits after
-- every commit. The key allows a transaction to move money once.
CREATE TABLE ledger.entries (
  txn_id uuid PRIMARY KEY REFERENCES ledger.transactions,
  debit_account text NOT NULL,
  credit_account text NOT NULL,
  amount bigint NOT NULL CHECK (amount > 0),
  currency text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  CHECK (debit_account <> credit_account)
);

-- Events that commit with the change they tell of. Taken by state, never by "id above the last":
-- ids are drawn before commit, so a lower one may appear after a higher one was published.
CREATE TABLE ledger.outbox (
  event_id uuid PRIMARY KEY,
  order_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  event_type text NOT NULL,
  txn_id uuid NOT NULL,
  -- The payment that orders the event.
  payment_id uuid NOT NULL,
  partner_id text NOT NULL,
  -- A hash of payment_id: one lease, one ordering key.
  bucket smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
  -- Null for a key conflict, which settles nothing and so has no place in the payment's order.
  sequence integer CHECK (sequence >= 1),
  -- Published byte for byte, on every attempt.
  payload text NOT NULL,
  traceparent text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'published', 'parked')),
  parked_reason text,
  published_at timestamptz(3),
  -- The lease under which the row was marked.
  published_epoch bigint,
  CONSTRAINT one_event_per_sequence UNIQUE (payment_id, sequence),
  CONSTRAINT sequence_when_settled CHECK ((sequence IS NULL) = (event_type = 'payment.key_conflict')),
  CONSTRAINT reason_when_parked CHECK ((state = 'parked') = (parked_reason IS NOT NULL)),
  CONSTRAINT marked_when_published
    CHECK ((state = 'published') = (published_at IS NOT NULL AND published_epoch IS NOT NULL))
);

CREATE INDEX outbox_pending ON ledger.outbox (bucket, order_id) WHERE state = 'pending';
CREATE INDEX outbox_parked ON ledger.outbox (payment_id, order_id) WHERE state = 'parked';

-- Who may publish a bucket, and until when. The epoch grows with every new lease and is compared
-- by every write under it, so an owner that was paused past its expiry changes nothing.
CREATE TABLE ledger.outbox_leases (
  bucket smallint PRIMARY KEY CHECK (bucket BETWEEN 0 AND 63),
  owner text,
  epoch bigint NOT NULL DEFAULT 0,
  expires_at timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO ledger.outbox_leases (bucket) SELECT generate_series(0, 63);

-- Dispatchers that asked for buckets lately, those without any included: what a fair share is
-- follows from how many there are.
CREATE TABLE ledger.outbox_owners (
  owner text PRIMARY KEY,
  alive_until timestamptz NOT NULL
);

-- What stands is not changed, whoever asks: these triggers hold for the owner of the tables too.

CREATE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: history is only added to',
    TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;

CREATE TRIGGER entries_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.entries
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER transactions_are_kept BEFORE DELETE OR TRUNCATE ON ledger.transactions
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER outbox_is_kept_whole BEFORE TRUNCATE ON ledger.outbox
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

CREATE FUNCTION ledger.guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ROW(NEW.txn_id, NEW.kind, NEW.partner_id, NEW.idempotency_key, NEW.fingerprint,
         NEW.response_version, NEW.amount, NEW.currency, NEW.payment_method, NEW.reference,
         NEW.description, NEW.metadata, NEW.created_at)
     IS DISTINCT FROM
     ROW(OLD.txn_id, OLD.kind, OLD.partner_id, OLD.idempotency_key, OLD.fingerprint,
         OLD.response_version, OLD.amount, OLD.currency, OLD.payment_method, OLD.reference,
         OLD.description, OLD.metadata, OLD.created_at) THEN
    RAISE EXCEPTION 'transaction %: what was asked for never changes', OLD.txn_id;
  END IF;
  IF OLD.state <> 'pending'
     AND ROW(NEW.state, NEW.settled_at, NEW.failure_code, NEW.failure_message,
             NEW.provider, NEW.provider_intent_id)
     IS DISTINCT FROM
     ROW(OLD.state, OLD.settled_at, OLD.failure_code, OLD.failure_message,
         OLD.provider, OLD.provider_intent_id) THEN
    RAISE EXCEPTION 'transaction %: what is final never changes', OLD.txn_id;
  END IF;
  IF NEW.version <= OLD.version OR NEW.events < OLD.events THEN
    RAISE EXCEPTION 'transaction %: version grows with every change, events never shrink', OLD.txn_id;
  END IF;
  RETURN NEW;
END
$$;

CREATE TRIGGER transactions_change_forward BEFORE UPDATE ON ledger.transactions
  FOR EACH ROW EXECUTE FUNCTION ledger.guard_transaction();

CREATE FUNCTION ledger.guard_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ROW(NEW.event_id, NEW.order_id, NEW.event_type, NEW.txn_id, NEW.payment_id, NEW.partner_id,
         NEW.bucket, NEW.sequence, NEW.payload, NEW.traceparent, NEW.created_at)
     IS DISTINCT FROM
     ROW(OLD.event_id, OLD.order_id, OLD.event_type, OLD.txn_id, OLD.payment_id, OLD.partner_id,
         OLD.bucket, OLD.sequence, OLD.payload, OLD.traceparent, OLD.created_at) THEN
    RAISE EXCEPTION 'event %: what an event says never changes', OLD.event_id;
  END IF;
  RETURN NEW;
END
$$;

CREATE TRIGGER events_say_the_same BEFORE UPDATE ON ledger.outbox
  FOR EACH ROW EXECUTE FUNCTION ledger.guard_outbox();

-- What the roles may do at all: by column where a row changes, and never DELETE on what is kept.

GRANT SELECT, INSERT ON ledger.transactions, ledger.entries, ledger.outbox TO triplock_ledger;
GRANT UPDATE (state, version, events, failure_code, failure_message, settled_at, refund_reserved,
              amount_refunded, provider, provider_intent_id) ON ledger.transactions TO triplock_ledger;
GRANT UPDATE (state, parked_reason, published_at, published_epoch) ON ledger.outbox TO triplock_ledger;
GRANT SELECT, UPDATE (owner, epoch, expires_at) ON ledger.outbox_leases TO triplock_ledger;
GRANT SELECT, INSERT, DELETE, UPDATE (alive_until) ON ledger.outbox_owners TO triplock_ledger;

GRANT SELECT ON ledger.transactions TO triplock_gateway;
GRANT SELECT ON ALL TABLES IN SCHEMA ledger TO triplock_auditor;
