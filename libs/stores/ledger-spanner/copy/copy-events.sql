-- Brings events of the copy up to what another store says.
--
-- $1 a JSON array of rows. A row: the id of an event that the store tells otherwise than it was
-- before; whether it waits, is published or is parked may change.
WITH told AS MATERIALIZED (
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
  FROM told
  ORDER BY event_id
  ON CONFLICT (event_id) DO UPDATE SET
    state = excluded.state, parked_reason = excluded.parked_reason,
    published_at = excluded.published_at, published_epoch = excluded.published_epoch
)
SELECT known.event_id::text AS id
FROM told JOIN ledger.outbox AS known USING (event_id)
WHERE (
  known.order_id, known.event_type, known.txn_id, known.payment_id, known.partner_id, known.bucket,
  known.sequence, known.payload, known.traceparent
) IS DISTINCT FROM (
  told.order_id, told.event_type, told.txn_id, told.payment_id, told.partner_id, told.bucket,
  told.sequence, told.payload, told.traceparent
)
