-- What is written beside a transaction's row: what follows from its end, in the transaction of
-- that, and the event of a request that lost its key, by itself.

-- name: appendSettlements
-- Writes what settlements come to: their entries, their events, and that the refunds, captures and
-- cancellations which wait for these payments can go on now. An authorisation is written so, too.
--
-- $1 txn ids, $2 debit accounts, null where no money moves, $3 credit accounts, $4 amounts,
-- $5 currencies, $6 event ids, $7 event types, $8 partners, $9 buckets, $10 sequences,
-- $11 payloads, $12 traceparents, $13 the payments that order the events; all of one length. It
-- runs in the transaction of settle.sql or settleFollowUp, under the payments' locks, so the order
-- ids it draws never run against a payment's sequence.
-- A row each, but for those that were told before this database was set back: their events are in
-- the outbox, and what was told is adopted, with the steps before an end.
--
-- A refund that looked at its payment before that was final has committed by now, because it held
-- the payment's lock, and is seen here: this is a statement of its own. One that is locked by
-- somebody waits for the payment's lock and will see the payment final, or gives that up and is due
-- by itself; to wait for that refund would be a deadlock, so it is passed over.
WITH asked AS (
  SELECT * FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::uuid[], $7::text[],
    $8::text[], $9::smallint[], $10::integer[], $11::text[], $12::text[], $13::uuid[]
  ) AS asked (
    txn_id, debit_account, credit_account, amount, currency, event_id, event_type, partner_id,
    bucket, sequence, payload, traceparent, payment_id
  )
), moved AS (
  INSERT INTO ledger.entries (txn_id, debit_account, credit_account, amount, currency)
  SELECT txn_id, debit_account, credit_account, amount, currency FROM asked
  WHERE debit_account IS NOT NULL
), waiting AS (
  SELECT txn_id, payment_id, created_at FROM ledger.transactions
  WHERE payment_id = ANY ($1::uuid[]) AND settled_at IS NULL AND due_at > now()
  FOR NO KEY UPDATE SKIP LOCKED
), woken AS (
  -- Due in the order in which they are to be decided.
  UPDATE ledger.transactions AS refund
  SET due_at = now() + nth * interval '1 microsecond', version = version + 1
  FROM (
    SELECT txn_id, row_number() OVER (PARTITION BY payment_id ORDER BY created_at, txn_id) - 1
      AS nth
    FROM waiting
  ) AS turn
  WHERE refund.txn_id = turn.txn_id
), adopted AS (
  UPDATE ledger.told SET adopted_at = now()
  FROM asked
  WHERE told.txn_id = asked.txn_id AND told.adopted_at IS NULL AND (
    told.event_id = asked.event_id
    OR told.event_type IN ('payment.requires_action', 'payment.authorized')
  )
)
INSERT INTO ledger.outbox (
  event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
)
SELECT
  event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
FROM asked
WHERE NOT EXISTS (
  SELECT FROM ledger.told WHERE told.event_id = asked.event_id AND told.adopted_at IS NULL
)
RETURNING order_id

-- name: appendEvent
-- Tells of what became of a pending payment.
--
-- $1 event id, $2 event type, $3 txn id, $4 the payment that orders the event, $5 partner, $6
-- bucket, $7 sequence, $8 payload, $9 traceparent. It runs in the transaction that changed the
-- payment, under its lock, as appendSettlements does. One row, unless it was told before this
-- database was set back.
WITH adopted AS (
  UPDATE ledger.told SET adopted_at = now() WHERE event_id = $1 AND adopted_at IS NULL
)
INSERT INTO ledger.outbox (
  event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
)
SELECT $1, $2, $3::uuid, $4::uuid, $5, $6::smallint, $7::integer, $8, $9
WHERE NOT EXISTS (SELECT FROM ledger.told WHERE event_id = $1 AND adopted_at IS NULL)
RETURNING order_id

-- name: recordKeyConflict
-- Tells of a request that lost its key to another one.
--
-- $1 event id, $2 txn id, $3 partner, $4 bucket, $5 payload, $6 traceparent,
-- $7 the payment.
-- A row: the event is new. No row: this loser has an event already, which stays.
INSERT INTO ledger.outbox (
  event_id, event_type, txn_id, payment_id, partner_id, bucket, payload, traceparent
)
VALUES ($1, 'payment.key_conflict', $2::uuid, $7::uuid, $3, $4, $5, $6)
ON CONFLICT (event_id) DO NOTHING
RETURNING order_id
