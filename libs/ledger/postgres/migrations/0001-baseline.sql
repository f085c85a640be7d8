-- The ledger and its outbox: guard 2, and where guard 3 begins. Written by the ledger worker as the
-- role triplock_ledger, and the outbox dispatcher as triplock_dispatcher; read by the gateway
-- (transactions), the audit (everything) and the consumers' inboxes (how long events are kept).
--
-- What is final never changes and history is only added to. Constraints hold what a row may be,
-- triggers hold what may become of it against everyone, the owner and bugs included, and rights hold
-- it once more for the roles that services run as. The columns of a transaction are once more, as a
-- list, in libs/ledger/columns.ts, and a test compares every statement with it.

-- -------------------------------------------------------------------------------------------------
-- transactions: one row for each payment, refund, capture and cancellation, for ever. Posting inserts
-- it, settling makes it final; a pending one says who may look after it next and when.

CREATE TABLE ledger.transactions (
  -- What was asked for: never changes.

  -- A pure function of (kind, partner_id, idempotency_key): the same request is the same row.
  txn_id uuid PRIMARY KEY,
  -- Which kinds there are, the code says (libs/payments/identity.ts).
  kind text NOT NULL CHECK (kind ~ '^[a-z]{3,12}$'),
  partner_id text NOT NULL,
  idempotency_key text NOT NULL,
  -- SHA-256 of what was asked for: distinguishes a retry from a reused key when Redis has forgotten both.
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  -- Which form the 202 had, so that its bytes can be made again.
  response_version smallint NOT NULL CHECK (response_version >= 1),
  -- The payment of a refund, capture or cancellation, by which its record and events are ordered.
  payment_id uuid,
  -- What the partner asked a refund to give back, or a capture to take; null: all that is left when it
  -- is posted.
  requested_amount bigint CHECK (requested_amount BETWEEN 1 AND 999999999999),
  -- Null for a book transfer, which no provider is asked about.
  payment_method text,
  -- The partner's own reference, by which it may look for its payments.
  reference text,
  -- The fields that the ledger does not compute with, as JSON text: description and metadata of a
  -- payment, reason of a refund. Null when none was sent.
  details text CHECK (jsonb_typeof(details::jsonb) = 'object'),
  -- The gateway's clock when it first claimed the key.
  created_at timestamptz(3) NOT NULL,

  -- How much: never changes once it is there. A refund has neither until they are reserved on its
  -- payment.
  amount bigint CHECK (amount BETWEEN 1 AND 999999999999),
  currency text CHECK (currency ~ '^[A-Z]{3}$'),

  -- How it ended: never changes once it is final.
  state text NOT NULL CHECK (state IN ('pending', 'succeeded', 'captured', 'failed', 'canceled')),
  failure_code text,
  failure_message text,
  settled_at timestamptz(3),
  -- Who has to be asked, and its ids of what moved the money: of a payment from when it is posted, of
  -- what follows one from when it is reserved; null for a book transfer. The intent is stored before
  -- it is confirmed, and then stays the one.
  provider text,
  provider_intent_id text,
  provider_charge_id text,
  provider_refund_id text,
  -- The capture or cancellation that ends an authorised payment: it takes the payment before the
  -- provider is asked, and lets go of it where it fails.
  closed_by uuid,
  -- What was captured of it; refunds are capped by that.
  amount_captured bigint CHECK (amount_captured BETWEEN 1 AND amount),

  -- Grows with every change of the row: a writer that saw an older one writes nothing.
  version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
  -- The sequence of the payment's newest event; the next one is taken under this row's lock.
  events integer NOT NULL CHECK (events >= 0),
  -- The cap on refunds is this column under a guarded update, never a sum over rows.
  refund_reserved bigint NOT NULL DEFAULT 0,
  amount_refunded bigint NOT NULL DEFAULT 0,
  -- Until when the customer of a card has time to act; null until a worker has seen that it has to.
  action_expires_at timestamptz(3),
  -- What the customer has to do, and where: sealed, because whoever has it can act for the customer.
  next_action text,
  -- When a worker saw that a card's money is held, to be captured; null before, or where it moves at
  -- once. A pending payment that has it is authorised.
  authorized_at timestamptz(3),
  -- Until when the provider holds it, as it said then; null where it did not.
  hold_expires_at timestamptz(3),
  -- When somebody other than the one at work looks after a pending row; null once it is final.
  due_at timestamptz(3),
  -- Of the request, for the event that a later process writes; null where posting settled at once.
  traceparent text,

  CONSTRAINT one_transaction_per_key UNIQUE (partner_id, idempotency_key, kind),
  CONSTRAINT settled_when_final CHECK ((state = 'pending') = (settled_at IS NULL)),
  CONSTRAINT failure_when_failed 
    CHECK ((state IN ('failed', 'canceled')) = (failure_code IS NOT NULL)),
  CONSTRAINT due_while_pending CHECK ((state = 'pending') = (due_at IS NOT NULL)),
  CONSTRAINT action_while_pending CHECK (state = 'pending' OR next_action IS NULL),
  CONSTRAINT follows_a_payment
    CHECK ((kind IN ('refund', 'capture', 'cancellation')) = (payment_id IS NOT NULL)),
  CONSTRAINT amount_with_currency CHECK ((amount IS NULL) = (currency IS NULL)),
  CONSTRAINT payment_has_an_amount CHECK (payment_id IS NOT NULL OR amount IS NOT NULL),
  CONSTRAINT refunded_has_an_amount CHECK (state <> 'succeeded' OR amount IS NOT NULL),
  CONSTRAINT captured_has_an_amount CHECK ((state = 'captured') = (amount_captured IS NOT NULL)),
  CONSTRAINT closed_once_authorized
    CHECK (authorized_at IS NOT NULL OR closed_by IS NULL),
  CONSTRAINT held_once_authorized CHECK (authorized_at IS NOT NULL OR hold_expires_at IS NULL),
  CONSTRAINT refunds_within_amount
    CHECK (0 <= amount_refunded AND amount_refunded <= refund_reserved
      AND refund_reserved <= coalesce(amount_captured, amount))
);

-- For how long what waits for a row that may come by itself is left alone: a quarter of its age, a second at
-- least and a minute at most. Inlined where it is used.
CREATE FUNCTION ledger.rest_of(created_at timestamptz) RETURNS interval LANGUAGE sql STABLE AS $$
  SELECT greatest(interval '1 second', least(interval '1 minute', (now() - created_at) / 4))
$$;

-- Lists of a partner's payments, newest first, and its two filters, each by an index that only holds
-- what it is asked for: a payment without a reference that succeeded costs neither of them a write.
CREATE INDEX payments_by_time ON ledger.transactions (partner_id, created_at, txn_id)
  WHERE kind = 'payment';
CREATE INDEX payments_by_reference ON ledger.transactions
  (partner_id, reference, created_at, txn_id)
  WHERE kind = 'payment' AND reference IS NOT NULL;
CREATE INDEX payments_not_succeeded ON ledger.transactions
  (partner_id, state, created_at, txn_id)
  WHERE kind = 'payment' AND state <> 'succeeded';
CREATE INDEX refunds_of_a_payment ON ledger.transactions (payment_id, created_at, txn_id)
  WHERE payment_id IS NOT NULL;
-- Whether and since when there is anything that a provider is asked about: book transfers are not in
-- it, and an auditor that looks for others among them reads none.
CREATE INDEX charged_by_time ON ledger.transactions (provider, created_at)
  WHERE payment_method IS NOT NULL;
-- For whoever looks after what is due at one provider, or at none.
CREATE INDEX transactions_due ON ledger.transactions (provider, due_at) WHERE state = 'pending';
-- For what a provider reports of an intent.
CREATE INDEX transactions_by_intent ON ledger.transactions (provider_intent_id)
  WHERE provider_intent_id IS NOT NULL;
-- For the audit, which looks at what was settled in a window of time. Rows are settled in about the
-- order in which they are written, so an index by block ranges finds them and costs next to nothing.
-- It has no pending rows: the planner, whose statistics may know of none, would look for a row that
-- it has the id of among all that are pending, and so in every range that ever had one.
CREATE INDEX transactions_settled ON ledger.transactions USING brin (settled_at)
  WITH (autosummarize = on) WHERE settled_at IS NOT NULL;

-- -------------------------------------------------------------------------------------------------
-- entries: double entry in the form of transfers. A row names both accounts, so debits equal credits
-- after every commit. The key allows a transaction to move money once.

CREATE TABLE ledger.entries (
  txn_id uuid PRIMARY KEY REFERENCES ledger.transactions,
  debit_account text NOT NULL,
  credit_account text NOT NULL,
  amount bigint NOT NULL CHECK (amount > 0),
  currency text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  CHECK (debit_account <> credit_account)
);
-- For the audit's windows of time.
CREATE INDEX entries_by_time ON ledger.entries USING brin (created_at) WITH (autosummarize = on);

-- -------------------------------------------------------------------------------------------------
-- disputes: what customers want back from their banks, once per dispute at the provider, which allows
-- several of one charge. Written once its payment is final, with the event that tells the partner.

CREATE TABLE ledger.disputes (
  txn_id uuid NOT NULL REFERENCES ledger.transactions,
  -- The provider's.
  dispute_id text NOT NULL,
  -- Its id for partners: a pure function of (provider, provider_intent_id, dispute_id).
  id uuid NOT NULL UNIQUE,
  -- The payment's, by which they list their own.
  partner_id text NOT NULL,
  -- The event's number in the payment's order.
  sequence integer NOT NULL CHECK (sequence >= 1),
  -- Minor units of the payment's currency.
  amount bigint NOT NULL CHECK (amount >= 0),
  reason text NOT NULL,
  -- By when the provider wants evidence, as it said first; null where it wants none.
  evidence_due_by timestamptz(3),
  -- When the ledger first learned of it.
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (txn_id, dispute_id)
);
CREATE INDEX disputes_of_a_partner ON ledger.disputes (partner_id, created_at, id);
-- For the audit's windows of time, and for whoever asks about a dispute by the provider's id.
CREATE INDEX disputes_by_time ON ledger.disputes (created_at);
CREATE INDEX disputes_by_id ON ledger.disputes (dispute_id);

-- dispute_ends: how the bank decided, once for each dispute that is not open any more.
CREATE TABLE ledger.dispute_ends (
  txn_id uuid NOT NULL,
  dispute_id text NOT NULL,
  -- Who has the money: the partner, or the customer.
  ended text NOT NULL CHECK (ended IN ('won', 'lost')),
  -- When the ledger learned of it.
  ended_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (txn_id, dispute_id),
  FOREIGN KEY (txn_id, dispute_id) REFERENCES ledger.disputes
);
-- For the audit's windows of time.
CREATE INDEX dispute_ends_by_time ON ledger.dispute_ends (ended_at);

-- -------------------------------------------------------------------------------------------------
-- outbox: events that commit with the change they report, until some weeks after the dispatcher has
-- published them. Taken by state, never by "id above the last": ids are drawn before commit, so a
-- lower one may appear after a higher one was published.

CREATE TABLE ledger.outbox (
  event_id uuid PRIMARY KEY,
  order_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  event_type text NOT NULL,
  -- The transaction that it is about.
  txn_id uuid NOT NULL,
  -- The payment that orders the event.
  payment_id uuid NOT NULL,
  partner_id text NOT NULL,
  -- A hash of payment_id: one lease, one ordering key.
  bucket smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
  -- Null for a key conflict, which settles nothing and so has no number in the payment's order.
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

CREATE INDEX outbox_pending ON ledger.outbox (bucket, partner_id, order_id)
  WHERE state = 'pending';
CREATE INDEX outbox_parked ON ledger.outbox (payment_id, order_id) WHERE state = 'parked';
-- Read oldest first by the reaper, and by whoever publishes again what was published since a time.
CREATE INDEX outbox_published ON ledger.outbox (published_at) WHERE state = 'published';
-- For the audit's windows of time.
CREATE INDEX outbox_by_time ON ledger.outbox USING brin (created_at) WITH (autosummarize = on);

-- outbox_leases: who may publish a bucket, and until when; a row for each bucket, from the beginning.
-- The epoch grows with every new lease and is compared by every write under it, so an owner that was
-- paused past its expiry changes nothing.
CREATE TABLE ledger.outbox_leases (
  bucket smallint PRIMARY KEY CHECK (bucket BETWEEN 0 AND 63),
  owner text,
  epoch bigint NOT NULL DEFAULT 0,
  expires_at timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO ledger.outbox_leases (bucket) SELECT generate_series(0, 63);

-- outbox_owners: dispatchers that asked for buckets lately, those without any included: what a fair
-- share is follows from how many there are.
CREATE TABLE ledger.outbox_owners (
  owner text PRIMARY KEY,
  alive_until timestamptz NOT NULL
);

-- outbox_horizon: how far published events have left, so that the audit can distinguish an event that left
-- from one that was lost. One row, from the beginning.
CREATE TABLE ledger.outbox_horizon (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every event that left was published before this.
  reaped_before timestamptz NOT NULL DEFAULT '-infinity',
  -- How many events left.
  events bigint NOT NULL DEFAULT 0,
  -- For how long the last reaper had to keep events; null until one ran.
  kept_for interval
);
INSERT INTO ledger.outbox_horizon DEFAULT VALUES;

-- -------------------------------------------------------------------------------------------------
-- provider_events: an inbox for what the provider reports, whose one effect is that a pending row is due.
-- One row per event that let a row be due. Without it a copy would let it be due once more, which costs
-- a question to the provider and nothing else, so rows may leave after a while.

CREATE TABLE ledger.provider_events (
  provider text NOT NULL,
  event_id text NOT NULL,
  event_type text NOT NULL,
  intent_id text NOT NULL,
  received_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (provider, event_id)
);

CREATE INDEX provider_events_by_age ON ledger.provider_events (received_at);

-- -------------------------------------------------------------------------------------------------
-- What `rewind` and the workers find out after this database was set back to an earlier moment: what is
-- gone from here and not from the world. No row of it decides anything twice: each is either carried
-- into the transaction that it is about, or shown by the audit for as long as it is not.

-- rewinds: each time that it was set back. What was accepted before one may have been decided before,
-- and told.
CREATE TABLE ledger.rewinds (
  rewind_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  -- A time before the first commit that was lost.
  since timestamptz NOT NULL,
  -- Another server has it, and nothing that was posted or told is known to be lacking. Reports of the
  -- provider may be, which it does not repeat.
  disputes_only boolean NOT NULL DEFAULT false,
  done_at timestamptz NOT NULL DEFAULT now(),
  -- When the provider had been asked for every dispute since.
  disputes_asked_at timestamptz
);
CREATE INDEX rewinds_by_time ON ledger.rewinds (done_at) WHERE NOT disputes_only;

-- told: what an event said that had been published, of a transaction that is not as it says here yet.
-- The event itself is in the outbox again, byte for byte.
CREATE TABLE ledger.told (
  event_id uuid PRIMARY KEY,
  event_type text NOT NULL,
  txn_id uuid NOT NULL,
  payment_id uuid NOT NULL,
  sequence integer NOT NULL CHECK (sequence >= 1),
  happened_at timestamptz(3) NOT NULL,
  -- Of an end; null of a step before it, and of a dispute.
  state text CHECK (state IN ('succeeded', 'captured', 'failed', 'canceled')),
  failure_code text,
  failure_message text,
  -- Of an end by which an amount moved or was held: what was given back, captured or let go. Null where
  -- nothing was.
  amount bigint,
  currency text,
  charge_id text,
  -- Of a customer who had to act.
  action_expires_at timestamptz(3),
  -- Of a dispute, the provider's.
  dispute_id text,
  -- When the transaction became as it says.
  adopted_at timestamptz
);
CREATE INDEX told_of_a_transaction ON ledger.told (txn_id) WHERE adopted_at IS NULL;
CREATE INDEX told_of_a_payment ON ledger.told (payment_id, sequence) WHERE adopted_at IS NULL;

-- continuity: whether this database, on the server that runs it now, has all that was told. Events are
-- archived in Kafka before they are published, so a server that lacks one of them was set back: a standby
-- that was behind, a backup. One row, from the beginning.
CREATE TABLE ledger.continuity (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- ledger.this_server() of the one on which that was last seen to hold. Here it goes back with everything
  -- else, so no server that took over finds itself.
  server text NOT NULL DEFAULT '',
  -- The archive's next offset of each partition as of then: every event before it is known here.
  archived jsonb NOT NULL DEFAULT '{}',
  -- The same of the accepted topic: every record before it was posted here, or is a dead letter.
  posted jsonb NOT NULL DEFAULT '{}',
  -- When that was noted, by the clock of that server: what has the note has every commit before it.
  noted_at timestamptz,
  -- The server on which that was last seen to hold. On another one workers read again what came since:
  -- the group has passed it, and what was posted and not told yet may be lacking.
  posted_on text NOT NULL DEFAULT '',
  -- Since when something is known to be lacking; only `rewind` takes it away.
  set_back_at timestamptz
);
INSERT INTO ledger.continuity DEFAULT VALUES;

-- Names what may know another history than before: another server, the same one started again, also on an
-- older copy of its files, another database in it, and the same one after a dump was put into it, whose
-- tables are made anew or emptied and so have other files. (After VACUUM FULL they have, too, which costs
-- a look at the archive.) Nothing else can set the data of a database back.
-- In PL/pgSQL, whose sessions keep the plan: one of SQL alone is planned anew at each call.
CREATE FUNCTION ledger.this_server() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT concat_ws('/', extract(epoch FROM pg_postmaster_start_time()), oid,
      pg_relation_filenode('ledger.continuity'))
    FROM pg_database WHERE datname = current_database()
  );
END
$$;

-- given_back: refunds of ours that the provider showed of a payment, when it was asked for all of them.
CREATE TABLE ledger.given_back (
  txn_id uuid PRIMARY KEY,
  payment_id uuid NOT NULL,
  -- Minor units of the payment's currency.
  amount bigint NOT NULL CHECK (amount >= 1),
  -- Of one that gave nothing back in the end.
  failure_code text,
  failure_message text,
  noted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX given_back_of_a_payment ON ledger.given_back (payment_id);

-- recalled: payments of which the provider was asked for all refunds, and when last.
CREATE TABLE ledger.recalled (
  payment_id uuid PRIMARY KEY,
  recalled_at timestamptz NOT NULL DEFAULT now()
);

-- -------------------------------------------------------------------------------------------------
-- Where the ledger is kept in another store, the tables above hold a copy of it, which the auditor keeps
-- for whatever reads it by SQL, the audit first of all. The triggers and rights that keep history hold
-- for the copy too, so a store that has none of its own cannot change what was final without being
-- noticed.

-- copied: how far the copy is. No row: nothing was copied, and this is the ledger itself.
CREATE TABLE ledger.copied (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every commit until then is in the copy: microseconds since 1970, by the other store's clock.
  until_micros bigint NOT NULL,
  -- True between two slices of a backlog: of what was changed after `until_micros` some is here already
  -- and some is not. Who needs the ledger as of one moment waits.
  behind boolean NOT NULL DEFAULT false
);

-- copy_differences: what the other store says of a row, and its history does not allow.
CREATE TABLE ledger.copy_differences (
  kind text NOT NULL CHECK (kind IN ('transaction', 'entry', 'dispute', 'event', 'rows')),
  id text NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, id)
);

-- -------------------------------------------------------------------------------------------------
-- History is only added to, whoever asks: these triggers hold for the owner of the tables too.

CREATE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: history is only added to',
    TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;

CREATE TRIGGER entries_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.entries
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER disputes_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.disputes
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER dispute_ends_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
  ON ledger.dispute_ends FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER transactions_are_kept BEFORE DELETE OR TRUNCATE ON ledger.transactions
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER outbox_is_kept_whole BEFORE TRUNCATE ON ledger.outbox
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER differences_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.copy_differences
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

-- A row that is let be due keeps its version: whoever is at work on it need not begin again. That is
-- the one change that does not count.
CREATE FUNCTION ledger.guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ROW(NEW.txn_id, NEW.kind, NEW.partner_id, NEW.idempotency_key, NEW.fingerprint,
         NEW.response_version, NEW.payment_id, NEW.requested_amount, NEW.payment_method,
         NEW.reference, NEW.details, NEW.created_at)
     IS DISTINCT FROM
     ROW(OLD.txn_id, OLD.kind, OLD.partner_id, OLD.idempotency_key, OLD.fingerprint,
         OLD.response_version, OLD.payment_id, OLD.requested_amount, OLD.payment_method,
         OLD.reference, OLD.details, OLD.created_at) THEN
    RAISE EXCEPTION 'transaction %: what was asked for never changes', OLD.txn_id;
  END IF;
  IF OLD.amount IS NOT NULL
     AND ROW(NEW.amount, NEW.currency) IS DISTINCT FROM ROW(OLD.amount, OLD.currency) THEN
    RAISE EXCEPTION 'transaction %: an amount never changes', OLD.txn_id;
  END IF;
  IF OLD.provider IS NOT NULL AND NEW.provider IS DISTINCT FROM OLD.provider THEN
    RAISE EXCEPTION 'transaction %: who is asked about it never changes', OLD.txn_id;
  END IF;
  IF OLD.provider_intent_id IS NOT NULL
     AND ROW(NEW.provider, NEW.provider_intent_id)
     IS DISTINCT FROM ROW(OLD.provider, OLD.provider_intent_id) THEN
    RAISE EXCEPTION 'transaction %: a stored intent never changes', OLD.txn_id;
  END IF;
  IF OLD.action_expires_at IS NOT NULL
     AND NEW.action_expires_at IS DISTINCT FROM OLD.action_expires_at THEN
    RAISE EXCEPTION 'transaction %: the time that a customer has never changes', OLD.txn_id;
  END IF;
  IF OLD.authorized_at IS NOT NULL
     AND ROW(NEW.authorized_at, NEW.hold_expires_at)
     IS DISTINCT FROM ROW(OLD.authorized_at, OLD.hold_expires_at) THEN
    RAISE EXCEPTION 'transaction %: when it was authorised never changes', OLD.txn_id;
  END IF;
  IF OLD.state <> 'pending'
     AND ROW(NEW.amount, NEW.currency, NEW.state, NEW.failure_code, NEW.failure_message,
             NEW.settled_at, NEW.provider, NEW.provider_intent_id, NEW.provider_charge_id,
             NEW.provider_refund_id, NEW.closed_by, NEW.amount_captured)
     IS DISTINCT FROM
     ROW(OLD.amount, OLD.currency, OLD.state, OLD.failure_code, OLD.failure_message,
         OLD.settled_at, OLD.provider, OLD.provider_intent_id, OLD.provider_charge_id,
         OLD.provider_refund_id, OLD.closed_by, OLD.amount_captured) THEN
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

-- A key conflict has no sequence, so no cursor remembers it: its row is what keeps a request that
-- lost its key from being reported twice, and stays. One that waits or is parked is not reported yet.
CREATE FUNCTION ledger.guard_outbox_leaving() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state <> 'published' OR OLD.sequence IS NULL THEN
    RAISE EXCEPTION 'event %: only a published event of a settlement leaves', OLD.event_id;
  END IF;
  RETURN OLD;
END
$$;

CREATE TRIGGER events_leave_when_published BEFORE DELETE ON ledger.outbox
  FOR EACH ROW EXECUTE FUNCTION ledger.guard_outbox_leaving();

-- A worker decides nothing where something may be lacking that was decided, and told, before: this
-- refuses its every step, whichever statement takes it, until `ledger.continuity` has this server. The
-- code, of a class that means "not now" (databaseErrorKind), is one that PostgreSQL does not use.
CREATE FUNCTION ledger.require_continuity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM ledger.continuity WHERE server = ledger.this_server() AND set_back_at IS NULL
  ) THEN
    RAISE EXCEPTION 'nothing is decided on this server before it is known to have all that was told'
      USING ERRCODE = '55TL1';
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER transactions_follow_what_was_told BEFORE INSERT OR UPDATE ON ledger.transactions
  FOR EACH STATEMENT WHEN (current_user = 'triplock_ledger')
  EXECUTE FUNCTION ledger.require_continuity();
CREATE TRIGGER events_follow_what_was_told BEFORE INSERT ON ledger.outbox
  FOR EACH STATEMENT WHEN (current_user = 'triplock_ledger')
  EXECUTE FUNCTION ledger.require_continuity();

-- -------------------------------------------------------------------------------------------------
-- What leaves, leaves through functions: the role of the services may delete by nothing else.

-- Takes up to `rows_max` events out of the outbox that were published longer than `keep` ago, oldest
-- first, and remembers for how long it keeps.
--
-- Returns how many; 0 means that none is old enough. It forgets nothing younger than a day, whatever it
-- is asked. Reapers wait for one another at the horizon's row, so the oldest always leave first.
CREATE FUNCTION ledger.reap_outbox(keep interval, rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  horizon timestamptz := now() - keep;
  reaped integer;
BEGIN
  IF keep < interval '1 day' THEN
    RAISE EXCEPTION 'published events are kept for a day at least, not for %', keep;
  END IF;
  PERFORM FROM ledger.outbox_horizon FOR UPDATE;
  UPDATE ledger.outbox_horizon SET kept_for = keep WHERE kept_for IS DISTINCT FROM keep;
  DELETE FROM ledger.outbox WHERE event_id IN (
    SELECT event_id FROM ledger.outbox
    WHERE state = 'published' AND sequence IS NOT NULL AND published_at < horizon
    ORDER BY published_at, order_id
    LIMIT rows_max
  ) AND state = 'published' AND published_at < horizon;
  GET DIAGNOSTICS reaped = ROW_COUNT;
  IF reaped > 0 THEN
    UPDATE ledger.outbox_horizon
    SET reaped_before = greatest(reaped_before, horizon), events = events + reaped;
  END IF;
  RETURN reaped;
END
$$;

-- Lets events that were published wait for a dispatcher once more: on a server that lacks the newest
-- commits their consumers may have lost what they had applied, and the broker has passed it.
CREATE FUNCTION ledger.publish_again(event_ids uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
  UPDATE ledger.outbox SET state = 'pending', published_at = NULL, published_epoch = NULL
  WHERE event_id = ANY (event_ids) AND state = 'published'
$$;

-- Takes out up to `rows_max` events of the provider that came more than 30 days ago: a provider gives up
-- reporting after days, and signs what it reports for minutes.
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

-- For how long the last reaper had to keep events (null until one ran), and how old the oldest
-- one is that was published and may be again, or waits to be (null: there is none). A consumer's inbox
-- must remember an event for as long as it can be republished, and reads that here: what a setting says
-- is not yet true of the outbox, whose events leave in small batches, and two dispatchers may have
-- different ones.
--
-- A key conflict stays for ever in both tables, and what is parked is not published.
CREATE FUNCTION ledger.outbox_kept(OUT kept_for interval, OUT oldest interval)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
  SELECT
    (SELECT horizon.kept_for FROM ledger.outbox_horizon AS horizon),
    now() - least(
      (SELECT min(published_at) FROM ledger.outbox
       WHERE state = 'published' AND sequence IS NOT NULL),
      -- Also one that waits to be published once more: when it was so before is no longer known.
      (SELECT min(created_at) FROM ledger.outbox
       WHERE state = 'pending' AND sequence IS NOT NULL)
    )
$$;

REVOKE EXECUTE ON FUNCTION ledger.reap_outbox(interval, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION ledger.publish_again(uuid[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION ledger.reap_provider_events(integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION ledger.outbox_kept() FROM PUBLIC;

-- -------------------------------------------------------------------------------------------------
-- What the roles may do at all: by column where a row changes, and never DELETE on what is kept.

-- The worker posts and settles, and an event that it wrote is out of its hands.
GRANT SELECT, INSERT ON ledger.transactions, ledger.entries, ledger.disputes, ledger.dispute_ends,
  ledger.outbox, ledger.provider_events TO triplock_ledger;
GRANT UPDATE (amount, currency, state, failure_code, failure_message, settled_at, provider,
              provider_intent_id, provider_charge_id, provider_refund_id, closed_by, amount_captured,
              version, events, refund_reserved, amount_refunded, action_expires_at, next_action,
              authorized_at, hold_expires_at, due_at) ON ledger.transactions TO triplock_ledger;
GRANT EXECUTE ON FUNCTION ledger.publish_again(uuid[]), ledger.reap_provider_events(integer)
  TO triplock_ledger;

-- What was told is rewind's to find out; the worker notes what it has carried over, and what the provider
-- shows. That the ledger was set back it may find itself.
GRANT SELECT ON ledger.rewinds, ledger.told TO triplock_ledger;
GRANT INSERT (since, disputes_only) ON ledger.rewinds TO triplock_ledger;
GRANT UPDATE (disputes_asked_at) ON ledger.rewinds TO triplock_ledger;
GRANT UPDATE (adopted_at) ON ledger.told TO triplock_ledger;
-- The gateway asks whether what the ledger does not have was never posted.
GRANT SELECT ON ledger.continuity TO triplock_gateway;
GRANT SELECT, UPDATE (server, archived, posted, noted_at, posted_on, set_back_at) ON ledger.continuity
  TO triplock_ledger;
GRANT SELECT, INSERT, UPDATE ON ledger.given_back, ledger.recalled TO triplock_ledger;

-- The dispatcher neither writes an event nor sees what it is about.
GRANT SELECT, UPDATE (state, parked_reason, published_at, published_epoch) ON ledger.outbox
  TO triplock_dispatcher;
GRANT SELECT, UPDATE (owner, epoch, expires_at) ON ledger.outbox_leases TO triplock_dispatcher;
GRANT SELECT, INSERT, DELETE, UPDATE (alive_until) ON ledger.outbox_owners TO triplock_dispatcher;
GRANT EXECUTE ON FUNCTION ledger.reap_outbox(interval, integer) TO triplock_dispatcher;

-- A copy follows whatever becomes of the other store's rows; its audit also compares how many events
-- have left.
GRANT SELECT, INSERT ON ledger.transactions, ledger.entries, ledger.disputes, ledger.dispute_ends,
  ledger.outbox TO triplock_copy;
GRANT UPDATE (amount, currency, state, failure_code, failure_message, settled_at, provider,
              provider_intent_id, provider_charge_id, provider_refund_id, closed_by, amount_captured,
              version, events, refund_reserved, amount_refunded, action_expires_at, authorized_at,
              hold_expires_at, due_at) ON ledger.transactions TO triplock_copy;
GRANT UPDATE (state, parked_reason, published_at, published_epoch) ON ledger.outbox
  TO triplock_copy;
GRANT SELECT, INSERT, UPDATE (until_micros, behind) ON ledger.copied TO triplock_copy;
GRANT SELECT, INSERT ON ledger.copy_differences TO triplock_copy;
GRANT SELECT ON ledger.outbox_horizon TO triplock_copy;
GRANT EXECUTE ON FUNCTION ledger.reap_outbox(interval, integer) TO triplock_copy;

GRANT SELECT ON ledger.transactions, ledger.disputes, ledger.dispute_ends TO triplock_gateway;
GRANT SELECT ON ALL TABLES IN SCHEMA ledger TO triplock_auditor;
