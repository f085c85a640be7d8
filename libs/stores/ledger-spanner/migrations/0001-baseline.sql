-- The ledger and its outbox in Cloud Spanner: the tables of the PostgreSQL ledger, with keys and
-- indexes that spread. Ids are hashes, so what begins with one has no hot end. What would grow at one
-- end, such as anything that is ordered by time, begins with a shard or a bucket.
--
-- Spanner has no triggers: history is kept by the guards in the code, by the checks here, and by the
-- rights of a database role where fine-grained access control is used (docs/ledgers.md).
--
-- Each statement does no harm a second time, because a file that ended half way runs again whole.

CREATE TABLE IF NOT EXISTS transactions (
  -- A pure function of (kind, partner_id, idempotency_key): the same request is the same row. There
  -- is no second unique key over the three, whose newest entries a partner with counted keys would
  -- write at one end; that the id follows from them is checked where a record is decoded, and audited.
  txn_id STRING(36) NOT NULL,
  kind STRING(12) NOT NULL,
  partner_id STRING(MAX) NOT NULL,
  idempotency_key STRING(255) NOT NULL,
  -- SHA-256 in hex of what was asked for.
  fingerprint STRING(64) NOT NULL,
  response_version INT64 NOT NULL,
  -- The payment of a refund, capture or cancellation, and what the partner asked for.
  payment_id STRING(36),
  requested_amount INT64,
  amount INT64,
  currency STRING(MAX),
  payment_method STRING(MAX),
  reference STRING(MAX),
  -- The fields that the ledger does not compute with, as JSON text.
  details STRING(MAX),
  -- The gateway's clock when it first claimed the key.
  created_at TIMESTAMP NOT NULL,

  state STRING(9) NOT NULL,
  -- Grows with every change of the row: a writer that saw an older one writes nothing.
  version INT64 NOT NULL,
  -- The sequence of the payment's newest event; the next one is taken under this row's lock.
  events INT64 NOT NULL,
  failure_code STRING(MAX),
  failure_message STRING(MAX),
  settled_at TIMESTAMP,
  -- The cap on refunds is this column, read and written under one lock, never a sum over rows.
  refund_reserved INT64 NOT NULL DEFAULT (0),
  amount_refunded INT64 NOT NULL DEFAULT (0),
  -- Who has to be asked: of a payment from when it is posted, of what follows one from when it is
  -- reserved.
  provider STRING(MAX),
  provider_intent_id STRING(MAX),
  provider_charge_id STRING(MAX),
  provider_refund_id STRING(MAX),
  -- Until when the customer of a card has time to act.
  action_expires_at TIMESTAMP,
  -- What the customer has to do, and where; sealed.
  next_action STRING(MAX),
  -- When a worker saw that a card's money is held, and until when that is; the capture or cancellation that ends that, from
  -- before the provider is asked; and what was captured.
  authorized_at TIMESTAMP,
  hold_expires_at TIMESTAMP,
  closed_by STRING(36),
  amount_captured INT64,
  due_at TIMESTAMP,
  traceparent STRING(MAX),
  -- When the row was written last: its commit's timestamp, by which a mirror follows.
  changed_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),

  -- Spreads what is ordered by time.
  shard INT64 NOT NULL AS (ABS(MOD(FARM_FINGERPRINT(txn_id), 16))) STORED,
  -- Null where an index need not hold the row.
  due_shard INT64 AS (IF(state = 'pending', ABS(MOD(FARM_FINGERPRINT(txn_id), 16)), NULL)) STORED,
  -- Not null for those that need no provider: book transfers, and refunds yet to be reserved.
  due_here_shard INT64 AS (
    IF(
      state = 'pending' AND provider IS NULL,
      ABS(MOD(FARM_FINGERPRINT(txn_id), 16)),
      NULL
    )
  ) STORED,
  -- A provider's ids begin with the time, so they are looked up by a hash.
  intent_hash INT64 AS (FARM_FINGERPRINT(provider_intent_id)) STORED,
  unusual_state STRING(9) AS (IF(state = 'succeeded', NULL, state)) STORED,

  CONSTRAINT known_kind CHECK (REGEXP_CONTAINS(kind, r'^[a-z]{3,12}$')),
  CONSTRAINT known_state 
    CHECK (state IN ('pending', 'succeeded', 'captured', 'failed', 'canceled')),
  CONSTRAINT whole_fingerprint CHECK (REGEXP_CONTAINS(fingerprint, r'^[0-9a-f]{64}$')),
  CONSTRAINT known_response CHECK (response_version >= 1),
  CONSTRAINT amount_in_range CHECK (amount BETWEEN 1 AND 999999999999),
  CONSTRAINT requested_in_range CHECK (requested_amount BETWEEN 1 AND 999999999999),
  CONSTRAINT currency_of_three CHECK (REGEXP_CONTAINS(currency, r'^[A-Z]{3}$')),
  CONSTRAINT counted CHECK (version >= 1 AND events >= 0),
  CONSTRAINT settled_when_final CHECK ((state = 'pending') = (settled_at IS NULL)),
  CONSTRAINT failure_when_failed
    CHECK ((state IN ('failed', 'canceled')) = (failure_code IS NOT NULL)),
  CONSTRAINT due_while_pending CHECK ((state = 'pending') = (due_at IS NOT NULL)),
  CONSTRAINT action_while_pending CHECK (state = 'pending' OR next_action IS NULL),
  CONSTRAINT follows_a_payment
    CHECK ((kind IN ('refund', 'capture', 'cancellation')) = (payment_id IS NOT NULL)),
  CONSTRAINT amount_with_currency CHECK ((amount IS NULL) = (currency IS NULL)),
  CONSTRAINT payment_has_an_amount CHECK (payment_id IS NOT NULL OR amount IS NOT NULL),
  CONSTRAINT refunded_has_an_amount CHECK (state != 'succeeded' OR amount IS NOT NULL),
  CONSTRAINT captured_has_an_amount CHECK ((state = 'captured') = (amount_captured IS NOT NULL)),
  CONSTRAINT captured_within_amount CHECK (amount_captured BETWEEN 1 AND amount),
  CONSTRAINT closed_once_authorized CHECK (authorized_at IS NOT NULL OR closed_by IS NULL),
  CONSTRAINT held_once_authorized CHECK (authorized_at IS NOT NULL OR hold_expires_at IS NULL),
  CONSTRAINT refunds_within_amount CHECK (
    0 <= amount_refunded AND amount_refunded <= refund_reserved
    AND refund_reserved <= COALESCE(amount_captured, amount, 0)
  )
) PRIMARY KEY (txn_id);

CREATE INDEX IF NOT EXISTS payments_by_time
  ON transactions (partner_id, kind, shard, created_at DESC, txn_id DESC);
CREATE NULL_FILTERED INDEX IF NOT EXISTS payments_by_reference
  ON transactions (partner_id, kind, reference, shard, created_at DESC, txn_id DESC)
  STORING (state);
CREATE NULL_FILTERED INDEX IF NOT EXISTS payments_not_succeeded
  ON transactions (partner_id, kind, unusual_state, shard, created_at DESC, txn_id DESC);
CREATE NULL_FILTERED INDEX IF NOT EXISTS transactions_due ON transactions (due_shard, due_at);
CREATE NULL_FILTERED INDEX IF NOT EXISTS transactions_due_at
  ON transactions (due_shard, provider, due_at);
CREATE NULL_FILTERED INDEX IF NOT EXISTS transactions_due_here
  ON transactions (due_here_shard, due_at);
CREATE NULL_FILTERED INDEX IF NOT EXISTS refunds_of_a_payment
  ON transactions (payment_id, created_at DESC, txn_id DESC);
CREATE NULL_FILTERED INDEX IF NOT EXISTS transactions_by_intent ON transactions (intent_hash);
CREATE INDEX IF NOT EXISTS transactions_by_change ON transactions (shard, changed_at);

-- Double entry in the form of transfers, kept beside its transaction: a row names both accounts, so
-- debits equal credits after every commit. The key allows a transaction to move money once.
CREATE TABLE IF NOT EXISTS entries (
  txn_id STRING(36) NOT NULL,
  debit_account STRING(MAX) NOT NULL,
  credit_account STRING(MAX) NOT NULL,
  amount INT64 NOT NULL,
  currency STRING(MAX) NOT NULL,
  created_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
  CONSTRAINT something_moves CHECK (amount > 0),
  CONSTRAINT two_accounts CHECK (debit_account != credit_account)
) PRIMARY KEY (txn_id), INTERLEAVE IN PARENT transactions ON DELETE NO ACTION;

-- What customers want back from their banks, once per dispute at the provider, kept beside its
-- payment. It is copied with the payment, whose version and events it counts.
CREATE TABLE IF NOT EXISTS disputes (
  txn_id STRING(36) NOT NULL,
  dispute_id STRING(MAX) NOT NULL,
  -- Its id for partners: a pure function of (provider, provider_intent_id, dispute_id).
  id STRING(36) NOT NULL,
  -- The payment's, by which they list their own.
  partner_id STRING(MAX) NOT NULL,
  -- The event's number in the payment's order.
  sequence INT64 NOT NULL,
  -- Minor units of the payment's currency.
  amount INT64 NOT NULL,
  reason STRING(MAX) NOT NULL,
  -- By when the provider wants evidence, as it said first; null where it wants none.
  evidence_due_by TIMESTAMP,
  created_at TIMESTAMP NOT NULL,
  CONSTRAINT told_in_order CHECK (sequence >= 1),
  CONSTRAINT something_is_wanted CHECK (amount >= 0)
) PRIMARY KEY (txn_id, dispute_id), INTERLEAVE IN PARENT transactions ON DELETE NO ACTION;

CREATE UNIQUE INDEX IF NOT EXISTS disputes_by_id ON disputes (id);
-- They are few: one end of it bears what is written.
CREATE INDEX IF NOT EXISTS disputes_of_a_partner ON disputes (partner_id, created_at DESC, id DESC);

-- How the bank decided, once for each dispute that is not open any more. It is copied with the
-- payment, whose version grows with it.
CREATE TABLE IF NOT EXISTS dispute_ends (
  txn_id STRING(36) NOT NULL,
  dispute_id STRING(MAX) NOT NULL,
  -- Who has the money: the partner, or the customer.
  ended STRING(MAX) NOT NULL,
  ended_at TIMESTAMP NOT NULL,
  CONSTRAINT decided CHECK (ended IN ('won', 'lost'))
) PRIMARY KEY (txn_id, dispute_id), INTERLEAVE IN PARENT disputes ON DELETE NO ACTION;

-- Events that commit with the change they report, in the order of their commits' timestamps and, where
-- a payment ends with its capture in one commit, of their sequence.
CREATE TABLE IF NOT EXISTS outbox (
  event_id STRING(36) NOT NULL,
  event_type STRING(MAX) NOT NULL,
  txn_id STRING(36) NOT NULL,
  -- The payment that orders the event.
  payment_id STRING(36) NOT NULL,
  partner_id STRING(MAX) NOT NULL,
  -- A hash of payment_id: one lease, one ordering key, and what every index over time begins with.
  bucket INT64 NOT NULL,
  -- Null for a key conflict, which settles nothing and so has no number in the payment's order.
  sequence INT64,
  -- Published byte for byte, on every attempt.
  payload STRING(MAX) NOT NULL,
  traceparent STRING(MAX) NOT NULL,
  created_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
  state STRING(9) NOT NULL,
  parked_reason STRING(MAX),
  published_at TIMESTAMP OPTIONS (allow_commit_timestamp = true),
  -- The lease under which the row was marked.
  published_epoch INT64,
  changed_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),

  -- Unlike a sequence it is never null, so one index holds all events of a payment, each once.
  position STRING(MAX) NOT NULL AS (COALESCE(CAST(sequence AS STRING), event_id)) STORED,
  place INT64 NOT NULL AS (COALESCE(sequence, 0)) STORED,
  pending_bucket INT64 AS (IF(state = 'pending', bucket, NULL)) STORED,
  published_bucket INT64 AS (IF(state = 'published', bucket, NULL)) STORED,
  parked_payment STRING(36) AS (IF(state = 'parked', payment_id, NULL)) STORED,

  CONSTRAINT known_bucket CHECK (bucket BETWEEN 0 AND 63),
  CONSTRAINT known_event_state CHECK (state IN ('pending', 'published', 'parked')),
  CONSTRAINT sequence_counts CHECK (sequence >= 1),
  CONSTRAINT sequence_when_settled
    CHECK ((sequence IS NULL) = (event_type = 'payment.key_conflict')),
  CONSTRAINT reason_when_parked CHECK ((state = 'parked') = (parked_reason IS NOT NULL)),
  CONSTRAINT marked_when_published CHECK (
    (state = 'published') = (published_epoch IS NOT NULL)
  )
) PRIMARY KEY (event_id);

CREATE UNIQUE INDEX IF NOT EXISTS one_event_per_position ON outbox (payment_id, position);
CREATE NULL_FILTERED INDEX IF NOT EXISTS outbox_pending ON outbox (pending_bucket, created_at, place);
CREATE NULL_FILTERED INDEX IF NOT EXISTS outbox_published ON outbox (published_bucket, published_at);
CREATE NULL_FILTERED INDEX IF NOT EXISTS outbox_parked ON outbox (parked_payment, created_at);
CREATE INDEX IF NOT EXISTS outbox_by_change ON outbox (bucket, changed_at);

-- Who may publish a bucket, and until when; a bucket that nobody ever leased has no row. The epoch
-- grows with every new lease and is compared by every write under it, so an owner that was paused
-- past its expiry changes nothing.
CREATE TABLE IF NOT EXISTS outbox_leases (
  bucket INT64 NOT NULL,
  owner STRING(MAX),
  epoch INT64 NOT NULL,
  expires_at TIMESTAMP NOT NULL,
  CONSTRAINT leased_bucket CHECK (bucket BETWEEN 0 AND 63)
) PRIMARY KEY (bucket);

-- Dispatchers that asked for buckets lately, those without any included.
CREATE TABLE IF NOT EXISTS outbox_owners (
  owner STRING(MAX) NOT NULL,
  alive_until TIMESTAMP NOT NULL
) PRIMARY KEY (owner);

-- Events of the provider that woke somebody, under a hash of their id; Spanner itself forgets them.
CREATE TABLE IF NOT EXISTS provider_events (
  id STRING(36) NOT NULL,
  provider STRING(MAX) NOT NULL,
  event_id STRING(MAX) NOT NULL,
  event_type STRING(MAX) NOT NULL,
  intent_id STRING(MAX) NOT NULL,
  seen_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (id), ROW DELETION POLICY (OLDER_THAN(seen_at, INTERVAL 30 DAY));

-- How far published events have left the outbox, so that the audit can tell one that left from one
-- that was lost. One row, once something left.
CREATE TABLE IF NOT EXISTS outbox_horizon (
  only_row BOOL NOT NULL,
  -- Every event that left was published before this.
  reaped_before TIMESTAMP NOT NULL,
  events INT64 NOT NULL,
  -- For how long the last reaper had to keep events, milliseconds.
  kept_for_ms INT64 NOT NULL,
  CONSTRAINT one_horizon CHECK (only_row)
) PRIMARY KEY (only_row);
