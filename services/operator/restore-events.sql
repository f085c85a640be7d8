-- Brings back into the outbox what was published and the database no longer has.

-- name: restoreEvents
-- Puts events that were published, and that the database lacks, into the outbox again, byte for
-- byte, and notes what they told.
--
-- $1 a JSON array of objects with the fields below, in the order in which they were archived.
-- Always one row: how many were `restored`, and the ids of those that are `contested`: another
-- event of their payment has their number, so that they cannot be told again; and of those that are
-- `altered`: the database has another text of that id, or another end of their transaction, so that
-- somebody was told both or will be.
--
-- One whose transaction is as it says already is passed over: it left the outbox by age.
WITH archived AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS event (
    nth integer, event_id uuid, event_type text, txn_id uuid, payment_id uuid, partner_id text,
    bucket smallint, sequence integer, payload text, traceparent text, happened_at timestamptz,
    state text, failure_code text, failure_message text, amount bigint, currency text,
    charge_id text, action_expires_at timestamptz, dispute_id text
  )
), lacking AS MATERIALIZED (
  SELECT * FROM archived
  WHERE NOT EXISTS (SELECT FROM ledger.outbox WHERE outbox.event_id = archived.event_id)
    AND NOT EXISTS (
      SELECT FROM ledger.transactions
      WHERE transactions.txn_id = archived.txn_id AND CASE
        WHEN archived.sequence IS NULL THEN false
        WHEN archived.state IS NOT NULL THEN settled_at IS NOT NULL
        WHEN archived.event_type = 'payment.requires_action'
          THEN transactions.action_expires_at IS NOT NULL
        WHEN archived.event_type = 'payment.authorized' THEN authorized_at IS NOT NULL
        ELSE EXISTS (
          SELECT FROM ledger.disputes
          WHERE disputes.txn_id = archived.txn_id AND disputes.dispute_id = archived.dispute_id
        )
      END
    )
), altered AS (
  -- The first text of an id is the one that is kept.
  SELECT DISTINCT archived.event_id
  FROM (
    SELECT *, first_value(payload) OVER (PARTITION BY event_id ORDER BY nth) AS first_payload
    FROM archived
  ) AS archived
  LEFT JOIN ledger.outbox USING (event_id)
  LEFT JOIN ledger.transactions ON transactions.txn_id = archived.txn_id
  WHERE archived.payload <> coalesce(outbox.payload, first_payload)
    OR (
      outbox.event_id IS NULL AND archived.state IS NOT NULL
      AND transactions.settled_at IS NOT NULL
      AND (transactions.state, transactions.settled_at)
        <> (archived.state, archived.happened_at)
    )
), restored AS (
  -- Told when they happened: a day of settlement waits for those of its own.
  INSERT INTO ledger.outbox (
    event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent,
    created_at
  )
  SELECT
    event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent,
    coalesce(happened_at, now())
  FROM lacking
  ORDER BY nth
  ON CONFLICT DO NOTHING
  RETURNING event_id
), told AS (
  INSERT INTO ledger.told (
    event_id, event_type, txn_id, payment_id, sequence, happened_at, state, failure_code,
    failure_message, amount, currency, charge_id, action_expires_at, dispute_id
  )
  SELECT DISTINCT ON (event_id)
    event_id, event_type, txn_id, payment_id, sequence, happened_at, state, failure_code,
    failure_message, amount, currency, charge_id, action_expires_at, dispute_id
  FROM lacking JOIN restored USING (event_id)
  WHERE sequence IS NOT NULL
  ORDER BY event_id, nth
  ON CONFLICT (event_id) DO NOTHING
)
SELECT
  (SELECT count(*) FROM restored)::integer AS restored,
  ARRAY(
    SELECT DISTINCT event_id FROM lacking
    WHERE NOT EXISTS (SELECT FROM restored WHERE restored.event_id = lacking.event_id)
  ) AS contested,
  ARRAY(SELECT event_id FROM altered ORDER BY event_id) AS altered

-- name: continueNumbers
-- Has the payments that are there number their next events behind those that were told.
--
-- No parameters. No rows.
UPDATE ledger.transactions SET events = told.newest, version = version + 1
FROM (
  SELECT payment_id, max(sequence) AS newest FROM ledger.told
  WHERE adopted_at IS NULL
  GROUP BY payment_id
) AS told
WHERE transactions.txn_id = told.payment_id AND transactions.events < told.newest
