-- Makes many payments out of one, as every layer has them, as if they had come over some days. As
-- the owner and without triggers: what is made agrees with itself, and no service made it.

-- name: makeKeys
-- Which payments are to be made: a temporary table `made` of ids, times and texts.
--
-- $1 transaction id of the payment that they are like; $2 the first and $3 the last number; $4 of
-- how many in all, which came evenly over the $5 days that ended two hours ago.
CREATE TEMP TABLE made ON COMMIT DROP AS
WITH model AS (
  SELECT transactions.txn_id, event_id, partner_id, created_at, settled_at, payload, body
  FROM (SELECT * FROM ledger.transactions WHERE txn_id = $1::uuid) AS transactions
  JOIN (SELECT txn_id, event_id, payload FROM ledger.outbox) AS outbox USING (txn_id)
  JOIN (SELECT event_id, body FROM notifier.deliveries) AS deliveries USING (event_id)
), own AS (
  SELECT n, 'bench-' || n AS key,
         auditor.derive_id('payment', model.partner_id, 'bench-' || n) AS txn_id,
         date_trunc('milliseconds', now()) - interval '2 hours' - make_interval(
           secs => round(($4::integer - n) * ($5::float8 * 86400 / $4::integer) * 1000) / 1000
         ) AS settled_at
  FROM model, generate_series($2::integer, $3::integer) AS n
), timed AS (
  SELECT own.*, auditor.derive_id('event', own.txn_id::text, 'payment.succeeded') AS event_id,
         own.settled_at - (model.settled_at - model.created_at) AS created_at
  FROM own, model
), texts AS (
  SELECT timed.*, (
    SELECT array_agg(replace(replace(replace(replace(
      text, model.txn_id::text, timed.txn_id::text), model.event_id::text, timed.event_id::text),
      to_char(model.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      to_char(timed.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
      to_char(model.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      to_char(timed.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    ) ORDER BY which)
    FROM unnest(ARRAY[model.payload, model.body]) WITH ORDINALITY AS text (text, which)
  ) AS text
  FROM timed, model
)
SELECT n, key, txn_id, event_id, created_at, settled_at, text[1] AS payload, text[2] AS body,
       encode(sha256(convert_to(text[1], 'UTF8')), 'hex') AS payload_hash
FROM texts
ORDER BY n

-- name: makeAuditorAccepted
-- $1 transaction id of the payment that they are like.
INSERT INTO auditor.accepted
SELECT own.*
FROM auditor.accepted AS model JOIN ledger.transactions AS posted USING (txn_id), made,
     LATERAL jsonb_populate_record(model, jsonb_build_object(
       'txn_id', made.txn_id, 'first_seen', made.settled_at,
       'rest', auditor.hash_rest(
         posted.response_version, made.created_at, posted.payment_method, posted.reference,
         posted.details
       )
     )) AS own
WHERE model.txn_id = $1::uuid
ORDER BY n

-- name: makeLedgerTransactions
-- $1 transaction id of the payment that they are like.
INSERT INTO ledger.transactions
SELECT own.*
FROM ledger.transactions AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'txn_id', made.txn_id, 'idempotency_key', key,
  'created_at', made.created_at, 'settled_at', made.settled_at
)) AS own
WHERE model.txn_id = $1::uuid
ORDER BY n

-- name: makeLedgerEntries
-- $1 transaction id of the payment that they are like.
INSERT INTO ledger.entries
SELECT own.*
FROM ledger.entries AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'txn_id', made.txn_id, 'created_at', made.settled_at
)) AS own
WHERE model.txn_id = $1::uuid
ORDER BY n

-- name: makeLedgerOutbox
-- $1 transaction id of the payment that they are like.
INSERT INTO ledger.outbox OVERRIDING SYSTEM VALUE
SELECT own.*
FROM ledger.outbox AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'event_id', made.event_id, 'order_id', -n, 'txn_id', made.txn_id, 'payment_id', made.txn_id,
  'bucket', ('x' || left(made.txn_id::text, 4))::bit(16)::integer % 64,
  'payload', made.payload, 'created_at', made.settled_at, 'published_at', made.settled_at
)) AS own
WHERE model.txn_id = $1::uuid
ORDER BY n

-- name: makeAuditorPublished
-- $1 transaction id of the payment that they are like.
INSERT INTO auditor.published
SELECT own.*
FROM auditor.published AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'event_id', made.event_id, 'txn_id', made.txn_id, 'payment_id', made.txn_id,
  'payload_hash', made.payload_hash, 'copies', 1,
  'first_seen', made.settled_at, 'last_seen', made.settled_at
)) AS own
WHERE model.txn_id = $1::uuid
ORDER BY n

-- name: makeNotifierDeliveries
-- $1 transaction id of the payment that they are like.
INSERT INTO notifier.deliveries
SELECT own.*
FROM notifier.deliveries AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'event_id', made.event_id, 'txn_id', made.txn_id, 'body', made.body,
  'created_at', made.settled_at, 'first_attempt_at', made.settled_at,
  'next_attempt_at', made.settled_at, 'finished_at', made.settled_at
)) AS own
WHERE model.txn_id = $1::uuid
ORDER BY n

-- name: makeNotifierInbox
-- $1 transaction id of the payment that they are like.
INSERT INTO notifier.inbox
SELECT own.*
FROM notifier.inbox AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'event_id', made.event_id, 'ordering_key', made.txn_id,
  'payload_hash', made.payload_hash, 'received_at', made.settled_at
)) AS own
WHERE model.ordering_key = $1::uuid
ORDER BY n

-- name: makeNotifierCursors
-- $1 transaction id of the payment that they are like.
INSERT INTO notifier.cursors
SELECT own.*
FROM notifier.cursors AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'ordering_key', made.txn_id
)) AS own
WHERE model.ordering_key = $1::uuid
ORDER BY n

-- name: makeSettlementInbox
-- $1 transaction id of the payment that they are like.
INSERT INTO settlement.inbox
SELECT own.*
FROM settlement.inbox AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'event_id', made.event_id, 'ordering_key', made.txn_id,
  'payload_hash', made.payload_hash, 'received_at', made.settled_at
)) AS own
WHERE model.ordering_key = $1::uuid
ORDER BY n

-- name: makeSettlementCursors
-- $1 transaction id of the payment that they are like.
INSERT INTO settlement.cursors
SELECT own.*
FROM settlement.cursors AS model, made, LATERAL jsonb_populate_record(model, jsonb_build_object(
  'ordering_key', made.txn_id
)) AS own
WHERE model.ordering_key = $1::uuid
ORDER BY n

-- name: makeNotifierAttempts
-- $1 transaction id of the payment that they are like.
INSERT INTO notifier.delivery_attempts
SELECT own.*
FROM notifier.deliveries JOIN notifier.delivery_attempts AS model USING (event_id), made,
     LATERAL jsonb_populate_record(model, jsonb_build_object(
       'event_id', made.event_id, 'recorded_at', made.settled_at
     )) AS own
WHERE deliveries.txn_id = $1::uuid
ORDER BY n

-- name: makeSettlementBatches
-- $1 transaction id of the payment that they are like.
INSERT INTO settlement.batches AS known
  (partner_id, day, currency, gross, refunds, payments, refund_count)
SELECT partner_id, (made.settled_at AT TIME ZONE 'UTC')::date, currency,
       count(*) * amount, 0, count(*), 0
FROM ledger.transactions AS model, made
WHERE model.txn_id = $1::uuid
GROUP BY partner_id, 2, currency, amount
ON CONFLICT (partner_id, day, currency) DO UPDATE SET
  gross = known.gross + excluded.gross, payments = known.payments + excluded.payments

-- name: measureLook
-- What a look of a dispatcher at all buckets reads: blocks of index and table, and what waits.
EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
SELECT event.event_id
FROM generate_series(0, 63) AS wanted (bucket)
CROSS JOIN LATERAL (
  SELECT event_id FROM ledger.outbox
  WHERE outbox.bucket = wanted.bucket AND state = 'pending'
  ORDER BY order_id
  LIMIT 100
) AS event

-- name: measureBlocks
-- Blocks that were read in this database since it was made, from memory or disk, and how far the
-- closed slices are.
SELECT (SELECT (blks_hit + blks_read)::float8 FROM pg_stat_database
        WHERE datname = current_database()) AS blocks,
       (SELECT coalesce(max(nth), 0) FROM auditor.audit_slices) AS slices
