-- Makes many payments out of one, as every layer has them, as if they had come over some days, or
-- as they are left once their days were reaped. As the owner, without triggers and in one session:
-- what is made agrees with itself, and no service made it.

-- name: keepModel
-- The payment that all are to be like, as a temporary table `model`. $1 its transaction id.
CREATE TEMP TABLE model AS
SELECT transactions.*, event_id, payload, body
FROM ledger.transactions
JOIN (SELECT txn_id, event_id, payload FROM ledger.outbox) AS outbox USING (txn_id)
JOIN (SELECT event_id, body FROM webhooks.deliveries WHERE ordinal = 1) AS deliveries USING (event_id)
WHERE txn_id = $1::uuid

-- name: writeInserts
-- The statements that put each one of `made` into a layer, like the model there: rows of `layer`,
-- its `insert`, and whether its days are reaped. What of a column is a payment's own is said once
-- for all layers; everything else, and what the model has not, is as the model has it.
WITH layers AS (
  SELECT 'auditor.accepted'::regclass AS layer, false AS reaped, to_jsonb(its) AS its
  FROM model JOIN auditor.accepted AS its USING (txn_id)
  UNION ALL SELECT 'ledger.transactions', false, to_jsonb(its)
  FROM model JOIN ledger.transactions AS its USING (txn_id)
  UNION ALL SELECT 'ledger.entries', false, to_jsonb(its)
  FROM model JOIN ledger.entries AS its USING (txn_id)
  UNION ALL SELECT 'auditor.published', false, to_jsonb(its)
  FROM model JOIN auditor.published AS its USING (event_id)
  UNION ALL SELECT 'notifier.cursors', false, to_jsonb(its)
  FROM model JOIN notifier.cursors AS its ON its.ordering_key = model.txn_id
  UNION ALL SELECT 'settlement.cursors', false, to_jsonb(its)
  FROM model JOIN settlement.cursors AS its ON its.ordering_key = model.txn_id
  UNION ALL SELECT 'ledger.outbox', true, to_jsonb(its)
  FROM model JOIN ledger.outbox AS its USING (event_id)
  UNION ALL SELECT 'notifier.inbox', true, to_jsonb(its)
  FROM model JOIN notifier.inbox AS its USING (event_id)
  UNION ALL SELECT 'webhooks.deliveries', true, to_jsonb(its)
  FROM model JOIN webhooks.deliveries AS its USING (event_id)
  UNION ALL SELECT 'webhooks.delivery_attempts', true, to_jsonb(its)
  FROM model JOIN webhooks.delivery_attempts AS its USING (event_id)
  UNION ALL SELECT 'settlement.inbox', true, to_jsonb(its)
  FROM model JOIN settlement.inbox AS its USING (event_id)
), own (attname, value) AS (
  VALUES ('txn_id', 'txn_id'), ('payment_id', 'txn_id'), ('ordering_key', 'txn_id'),
    ('event_id', 'event_id'), ('idempotency_key', 'key'), ('payload_hash', 'payload_hash'),
    ('payload', 'payload'), ('body', 'body'), ('order_id', '-n'), ('position', 'n'), ('copies', '1'),
    ('bucket', '(''x'' || left(txn_id::text, 4))::bit(16)::integer % 64'),
    ('created_at', 'created_at'), ('settled_at', 'settled_at'), ('first_seen', 'settled_at'),
    ('last_seen', 'settled_at'), ('published_at', 'settled_at'), ('received_at', 'settled_at'),
    ('first_attempt_at', 'settled_at'), ('next_attempt_at', 'settled_at'),
    ('finished_at', 'settled_at'), ('recorded_at', 'settled_at')
  UNION ALL
  SELECT 'rest', format('auditor.hash_rest(%L, created_at, %L, %L, %L)',
                        response_version, payment_method, reference, details)
  FROM model
)
SELECT layer::text, reaped, format(
  'INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM made ORDER BY n', layer,
  string_agg(quote_ident(attname), ', ' ORDER BY attnum),
  string_agg(CASE WHEN its ->> attname IS NOT NULL AND value IS NOT NULL THEN value ELSE
    quote_nullable(its ->> attname) || '::' || format_type(atttypid, atttypmod)
  END, ', ' ORDER BY attnum)
) AS insert
FROM layers
JOIN pg_attribute ON attrelid = layer AND attnum > 0 AND attgenerated = '' AND NOT attisdropped
LEFT JOIN own USING (attname)
GROUP BY layer, reaped

-- name: pauseIndexes
-- Has inserts leave the indexes of these tables alone until REINDEX: new ids are anywhere in an
-- index, so that each of millions would write another page of it. $1 the tables.
UPDATE pg_index SET indisready = false, indisvalid = false WHERE indrelid = ANY ($1::regclass[])

-- name: makeKeys
-- Which payments are to be made: a temporary table `made` of ids, times and texts.
--
-- $1 the first and $2 the last number; $3 what their keys begin with; $4 when number 0 would have
-- come, and $5 seconds from one to the next; $6 whether with the texts that say what each is: of
-- one whose day was reaped, none is left. Each step is materialised: put into one, an id would be
-- derived again wherever it is used.
CREATE TEMP TABLE made ON COMMIT DROP AS
WITH own AS MATERIALIZED (
  SELECT n, $3::text || n AS key,
         auditor.derive_id('payment', model.partner_id, $3::text || n) AS txn_id,
         $4::timestamptz + make_interval(secs => floor(n * $5::float8 * 1000) / 1000) AS settled_at
  FROM model, generate_series($1::integer, $2::integer) AS n
), timed AS MATERIALIZED (
  SELECT own.*, auditor.derive_id('event', own.txn_id::text, 'payment.succeeded') AS event_id,
         own.settled_at - (model.settled_at - model.created_at) AS created_at
  FROM own, model
), texts AS MATERIALIZED (
  SELECT timed.*, CASE WHEN $6::boolean THEN (
    SELECT array_agg(replace(replace(replace(replace(
      text, model.txn_id::text, timed.txn_id::text), model.event_id::text, timed.event_id::text),
      to_char(model.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      to_char(timed.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
      to_char(model.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      to_char(timed.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    ) ORDER BY which)
    FROM unnest(ARRAY[model.payload, model.body]) WITH ORDINALITY AS text (text, which)
  ) END AS text
  FROM timed, model
)
SELECT n, key, txn_id, event_id, created_at, settled_at, text[1] AS payload, text[2] AS body,
       encode(sha256(convert_to(coalesce(text[1], key), 'UTF8')), 'hex') AS payload_hash
FROM texts
ORDER BY n

-- name: makeBatches
-- What each day of `made` is settled to, and its lines.
WITH lines AS (
  INSERT INTO partners.settlement_lines (partner_id, day, txn_id, kind, currency, amount, settled_at)
  SELECT partner_id, (made.settled_at AT TIME ZONE 'UTC')::date, made.txn_id, 'payment', currency, amount,
         made.settled_at
  FROM model, made
  ORDER BY n
), sums AS (
  INSERT INTO partners.settlement_sums AS known (partner_id, day, currency, kind, settled_on, count, amount)
  SELECT partner_id, (made.settled_at AT TIME ZONE 'UTC')::date, currency, 'payment',
         (made.settled_at AT TIME ZONE 'UTC')::date, count(*), count(*) * amount
  FROM model, made
  GROUP BY partner_id, 2, currency, amount
  ON CONFLICT (partner_id, day, currency, kind, settled_on) DO UPDATE SET
    count = known.count + excluded.count, amount = known.amount + excluded.amount
)
INSERT INTO partners.settlement_batches AS known
  (partner_id, day, currency, gross, refunds, payments, refund_count)
SELECT partner_id, (made.settled_at AT TIME ZONE 'UTC')::date, currency,
       count(*) * amount, 0, count(*), 0
FROM model, made
GROUP BY partner_id, 2, currency, amount
ON CONFLICT (partner_id, day, currency) DO UPDATE SET
  gross = known.gross + excluded.gross, payments = known.payments + excluded.payments

-- name: recordReaped
-- Says of so many payments that they left every layer that is reaped, as the reapers do.
--
-- $1 how many; $2 before when all of them came.
WITH outbox AS (
  UPDATE ledger.outbox_horizon SET reaped_before = $2::timestamptz, events = $1::bigint
), notified AS (
  INSERT INTO notifier.inbox_horizons (consumer, reaped_before, events)
  VALUES ('partner-notifier', $2, $1)
  ON CONFLICT (consumer) DO UPDATE SET
    reaped_before = excluded.reaped_before, events = excluded.events
), settled AS (
  INSERT INTO settlement.inbox_horizons (consumer, reaped_before, events)
  VALUES ('settlement-feed', $2, $1)
  ON CONFLICT (consumer) DO UPDATE SET
    reaped_before = excluded.reaped_before, events = excluded.events
), delivered AS (
  UPDATE webhooks.deliveries_horizon SET reaped_before = $2
)
INSERT INTO webhooks.reaped_deliveries
  (partner_id, state, event_type, currency, deliveries, amount)
SELECT partner_id, 'delivered', 'payment.succeeded', currency, $1, $1 * amount FROM model
