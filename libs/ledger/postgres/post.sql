-- Posts a batch: transactions, and of those really inserted the entries and events.
--
-- $1 a JSON array of objects with the fields below; ids differ within it. `debit_account` is null
-- where no money moves yet, `event_id` where nothing is settled yet. `payload` and
-- `details` are of type json, which keeps its text as it came, byte for byte. $2 milliseconds after
-- which somebody else looks after a row that is still pending.
-- A row: this statement made the transaction. No row for an id: the id, or its key, is taken.
--
-- One statement and one commit: a crash before it leaves nothing, and Kafka redelivers the batch.
-- Right after it transactions, entries and events are durable and the offset is not committed: the
-- batch comes again, and every id is taken.
--
-- What was told before this database was set back (ledger.told) is not told otherwise: it was
-- settled when the event says, which is in the outbox already, and the numbers of the payment's
-- events go on behind those that were told.
--
-- Sorted by id, because two batches that share ids in opposite order would deadlock. Without a
-- conflict target both unique keys are watched: with one, two racing inserts of one id could find
-- each other in the other key first and fail instead of doing nothing.
WITH input AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS posting (
    txn_id uuid, kind text, partner_id text, idempotency_key text, fingerprint bytea,
    response_version smallint, amount bigint, currency text, payment_method text, reference text,
    details json, created_at timestamptz, state text, failure_code text, failure_message text,
    settled_at timestamptz, provider text, debit_account text, credit_account text,
    event_id uuid, event_type text, bucket smallint, payload json, traceparent text
  )
), asked AS MATERIALIZED (
  SELECT input.*, told.happened_at, told.event_id AS told_id, numbered.newest
  FROM input
  LEFT JOIN ledger.told ON told.event_id = input.event_id AND told.adopted_at IS NULL
  LEFT JOIN LATERAL (
    SELECT max(sequence) AS newest FROM ledger.told
    WHERE told.payment_id = input.txn_id AND told.adopted_at IS NULL
  ) AS numbered ON true
), posted AS (
  INSERT INTO ledger.transactions (
    txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, amount, currency,
    payment_method, reference, details, created_at, state, failure_code, failure_message,
    settled_at, provider, events, due_at, traceparent
  )
  SELECT
    txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, amount, currency,
    payment_method, reference, details::text, created_at, state, failure_code, failure_message,
    coalesce(happened_at, settled_at), provider,
    greatest(CASE WHEN event_id IS NULL THEN 0 ELSE 1 END, newest),
    CASE WHEN state = 'pending' THEN now() + $2::integer * interval '1 millisecond' END,
    CASE WHEN state = 'pending' THEN traceparent END
  FROM asked
  ORDER BY txn_id
  ON CONFLICT DO NOTHING
  RETURNING txn_id
), moved AS (
  INSERT INTO ledger.entries (txn_id, debit_account, credit_account, amount, currency)
  SELECT txn_id, debit_account, credit_account, amount, currency
  FROM posted JOIN asked USING (txn_id)
  WHERE debit_account IS NOT NULL
), adopted AS (
  UPDATE ledger.told SET adopted_at = now()
  FROM posted JOIN asked USING (txn_id)
  WHERE told.event_id = asked.told_id
), announced AS (
  INSERT INTO ledger.outbox (
    event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
  )
  SELECT event_id, event_type, txn_id, txn_id, partner_id, bucket, 1, payload::text, traceparent
  FROM posted JOIN asked USING (txn_id)
  WHERE event_id IS NOT NULL AND told_id IS NULL
)
SELECT txn_id FROM posted
