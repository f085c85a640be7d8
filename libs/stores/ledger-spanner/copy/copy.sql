-- Brings the copy in PostgreSQL up to what the ledger in Spanner says. All of it is safe to
-- repeat, and what the history of the copy does not allow is not
-- copied, but found.

-- name: copyTransactions
-- Brings transactions of the copy up to what another store says.
--
-- $1 a JSON array of rows. A row: it was inserted or changed now. No row for an id: it is so
-- already, or its history does not allow what the store says; findDifferent says which.
INSERT INTO ledger.transactions AS known (
  txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, payment_id,
  requested_amount, amount, currency, payment_method, reference, details,
  created_at, state, version, events, failure_code, failure_message, settled_at, refund_reserved,
  amount_refunded, provider, provider_intent_id, provider_charge_id, provider_refund_id,
  action_expires_at, authorized_at, hold_expires_at, closed_by, amount_captured,
  due_at, traceparent
)
SELECT
  txn_id, kind, partner_id, idempotency_key, decode(fingerprint, 'hex'), response_version,
  payment_id, requested_amount, amount, currency, payment_method, reference, details,
  created_at, state, version, events, failure_code, failure_message, settled_at, refund_reserved,
  amount_refunded, provider, provider_intent_id, provider_charge_id, provider_refund_id,
  action_expires_at, authorized_at, hold_expires_at, closed_by, amount_captured,
  due_at, traceparent
FROM json_to_recordset($1::json) AS row (
  txn_id uuid, kind text, partner_id text, idempotency_key text, fingerprint text,
  response_version smallint, payment_id uuid, requested_amount bigint, amount bigint, currency text,
  payment_method text, reference text, details text,
  created_at timestamptz, state text, version integer, events integer, failure_code text,
  failure_message text, settled_at timestamptz, refund_reserved bigint, amount_refunded bigint,
  provider text, provider_intent_id text, provider_charge_id text, provider_refund_id text,
  action_expires_at timestamptz, authorized_at timestamptz, hold_expires_at timestamptz,
  closed_by uuid, amount_captured bigint,
  due_at timestamptz, traceparent text
)
ORDER BY txn_id
ON CONFLICT (txn_id) DO UPDATE SET
  amount = excluded.amount, currency = excluded.currency, state = excluded.state,
  version = excluded.version, events = excluded.events, failure_code = excluded.failure_code,
  failure_message = excluded.failure_message, settled_at = excluded.settled_at,
  refund_reserved = excluded.refund_reserved, amount_refunded = excluded.amount_refunded,
  provider = excluded.provider, provider_intent_id = excluded.provider_intent_id,
  provider_charge_id = excluded.provider_charge_id,
  provider_refund_id = excluded.provider_refund_id,
  action_expires_at = excluded.action_expires_at, authorized_at = excluded.authorized_at,
  hold_expires_at = excluded.hold_expires_at,
  closed_by = excluded.closed_by, amount_captured = excluded.amount_captured,
  due_at = excluded.due_at
WHERE excluded.version > known.version
  AND excluded.events >= known.events
  AND (known.amount IS NULL
    OR (known.amount, known.currency) IS NOT DISTINCT FROM (excluded.amount, excluded.currency))
  AND (known.provider IS NULL OR known.provider IS NOT DISTINCT FROM excluded.provider)
  AND (known.provider_intent_id IS NULL
    OR (known.provider, known.provider_intent_id)
      IS NOT DISTINCT FROM (excluded.provider, excluded.provider_intent_id))
  AND (known.action_expires_at IS NULL
    OR known.action_expires_at IS NOT DISTINCT FROM excluded.action_expires_at)
  AND (known.authorized_at IS NULL OR (known.authorized_at, known.hold_expires_at)
    IS NOT DISTINCT FROM (excluded.authorized_at, excluded.hold_expires_at))
  AND (known.state = 'pending' OR (
    known.state, known.settled_at, known.failure_code, known.failure_message,
    known.provider, known.provider_intent_id, known.provider_charge_id, known.provider_refund_id,
    known.closed_by, known.amount_captured
  ) IS NOT DISTINCT FROM (
    excluded.state, excluded.settled_at, excluded.failure_code, excluded.failure_message,
    excluded.provider, excluded.provider_intent_id, excluded.provider_charge_id,
    excluded.provider_refund_id, excluded.closed_by, excluded.amount_captured
  ))
RETURNING txn_id

-- name: findDifferent
-- Finds the transactions that the copy has otherwise than another store says, after copying them.
--
-- $1 a JSON array of the store's rows. A row: the id of one that it says something of which its
-- history in the copy does not allow. When a row is due is no part of its history.
SELECT known.txn_id::text AS id
FROM json_to_recordset($1::json) AS incoming (
  txn_id uuid, kind text, partner_id text, idempotency_key text, fingerprint text,
  response_version smallint, payment_id uuid, requested_amount bigint, amount bigint, currency text,
  payment_method text, reference text, details text,
  created_at timestamptz, state text, version integer, events integer, failure_code text,
  failure_message text, settled_at timestamptz, refund_reserved bigint, amount_refunded bigint,
  provider text, provider_intent_id text, provider_charge_id text, provider_refund_id text,
  action_expires_at timestamptz, authorized_at timestamptz, hold_expires_at timestamptz,
  closed_by uuid, amount_captured bigint
)
JOIN ledger.transactions AS known USING (txn_id)
WHERE (
  known.kind, known.partner_id, known.idempotency_key, encode(known.fingerprint, 'hex'),
  known.response_version, known.payment_id, known.requested_amount, known.amount, known.currency,
  known.payment_method, known.reference, known.details,
  known.created_at, known.state, known.version, known.events, known.failure_code,
  known.failure_message, known.settled_at, known.refund_reserved, known.amount_refunded,
  known.provider, known.provider_intent_id, known.provider_charge_id, known.provider_refund_id,
  known.action_expires_at, known.authorized_at, known.hold_expires_at, known.closed_by,
  known.amount_captured
) IS DISTINCT FROM (
  incoming.kind, incoming.partner_id, incoming.idempotency_key, incoming.fingerprint,
  incoming.response_version, incoming.payment_id, incoming.requested_amount, incoming.amount,
  incoming.currency,
  incoming.payment_method, incoming.reference, incoming.details,
  incoming.created_at, incoming.state, incoming.version, incoming.events, incoming.failure_code,
  incoming.failure_message, incoming.settled_at, incoming.refund_reserved, incoming.amount_refunded,
  incoming.provider, incoming.provider_intent_id, incoming.provider_charge_id,
  incoming.provider_refund_id,
  incoming.action_expires_at, incoming.authorized_at, incoming.hold_expires_at,
  incoming.closed_by, incoming.amount_captured
)

-- name: copyEntries
-- Adds entries to the copy. One that is there stays as it is.
--
-- $1 a JSON array of rows. A row: the id of an entry that the store has otherwise than it was
-- before.
WITH incoming AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS row (
    txn_id uuid, debit_account text, credit_account text, amount bigint, currency text,
    created_at timestamptz
  )
), added AS (
  INSERT INTO ledger.entries (
    txn_id, debit_account, credit_account, amount, currency, created_at
  )
  SELECT txn_id, debit_account, credit_account, amount, currency, created_at
  FROM incoming
  ORDER BY txn_id
  ON CONFLICT (txn_id) DO NOTHING
)
SELECT known.txn_id::text AS id
FROM incoming JOIN ledger.entries AS known USING (txn_id)
WHERE (known.debit_account, known.credit_account, known.amount, known.currency)
  IS DISTINCT FROM (
    incoming.debit_account, incoming.credit_account, incoming.amount, incoming.currency
  )

-- name: copyDisputes
-- Adds disputes to the copy. One that is there stays as it is.
--
-- $1 a JSON array of rows. A row: the id of a dispute that the store has otherwise than it was
-- before.
WITH incoming AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS row (
    txn_id uuid, dispute_id text, id uuid, partner_id text, sequence integer, amount bigint,
    reason text, evidence_due_by timestamptz, created_at timestamptz
  )
), added AS (
  INSERT INTO ledger.disputes (
    txn_id, dispute_id, id, partner_id, sequence, amount, reason, evidence_due_by, created_at
  )
  SELECT txn_id, dispute_id, id, partner_id, sequence, amount, reason, evidence_due_by, created_at
  FROM incoming
  ORDER BY txn_id, dispute_id
  ON CONFLICT (txn_id, dispute_id) DO NOTHING
)
SELECT known.dispute_id AS id
FROM incoming JOIN ledger.disputes AS known USING (txn_id, dispute_id)
WHERE (
    known.id, known.partner_id, known.sequence, known.amount, known.reason, known.evidence_due_by,
    known.created_at
  ) IS DISTINCT FROM (
    incoming.id, incoming.partner_id, incoming.sequence, incoming.amount, incoming.reason,
    incoming.evidence_due_by, incoming.created_at
  )

-- name: copyDisputeEnds
-- Adds ends of disputes to the copy. One that is there stays as it is.
--
-- $1 a JSON array of rows. A row: the id of a dispute that ended otherwise in the store than it did
-- before.
WITH incoming AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS row (
    txn_id uuid, dispute_id text, ended text, ended_at timestamptz
  )
), added AS (
  INSERT INTO ledger.dispute_ends (txn_id, dispute_id, ended, ended_at)
  SELECT txn_id, dispute_id, ended, ended_at FROM incoming
  ORDER BY txn_id, dispute_id
  ON CONFLICT (txn_id, dispute_id) DO NOTHING
)
SELECT known.dispute_id AS id
FROM incoming JOIN ledger.dispute_ends AS known USING (txn_id, dispute_id)
WHERE (known.ended, known.ended_at) IS DISTINCT FROM (incoming.ended, incoming.ended_at)

-- name: copyEvents
-- Brings events of the copy up to what another store says.
--
-- $1 a JSON array of rows. A row: the id of an event that the store has otherwise than it was
-- before; whether it waits, is published or is parked may change.
WITH incoming AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS row (
    event_id uuid, order_id bigint, event_type text, txn_id uuid, payment_id uuid, partner_id text,
    bucket smallint, sequence integer, payload text, traceparent text, created_at timestamptz,
    state text, parked_reason text, published_at timestamptz, published_epoch bigint
  )
), copied AS (
  INSERT INTO ledger.outbox AS known (
    event_id, order_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload,
    traceparent, created_at, state, parked_reason, published_at, published_epoch
  ) OVERRIDING SYSTEM VALUE
  SELECT
    event_id, order_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload,
    traceparent, created_at, state, parked_reason, published_at, published_epoch
  FROM incoming
  ORDER BY event_id
  ON CONFLICT (event_id) DO UPDATE SET
    state = excluded.state, parked_reason = excluded.parked_reason,
    published_at = excluded.published_at, published_epoch = excluded.published_epoch
)
SELECT known.event_id::text AS id
FROM incoming JOIN ledger.outbox AS known USING (event_id)
WHERE (
  known.order_id, known.event_type, known.txn_id, known.payment_id, known.partner_id, known.bucket,
  known.sequence, known.payload, known.traceparent
) IS DISTINCT FROM (
  incoming.order_id, incoming.event_type, incoming.txn_id, incoming.payment_id,
  incoming.partner_id, incoming.bucket, incoming.sequence, incoming.payload, incoming.traceparent
)

-- name: countRows
-- How many rows the copy has, and what its entries come to. No parameters; always one row.
SELECT
  (SELECT count(*) FROM ledger.transactions) AS transactions,
  (SELECT count(*) FROM ledger.entries) AS entries,
  (SELECT count(*) FROM ledger.disputes) AS disputes,
  (SELECT count(*) FROM ledger.dispute_ends) AS dispute_ends,
  (SELECT coalesce(sum(amount), 0)::bigint FROM ledger.entries) AS moved
