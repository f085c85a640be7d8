-- Rows beside those of many-payments.sql, and what is large then: for whoever looks at plans.

-- name: makeOthers
-- So many cards that succeeded, and a refund of each, with what the provider's journal has of them.
-- As the owner, without triggers, of payments that many-payments.sql made. $1 how many.
WITH chosen AS MATERIALIZED (
  SELECT t, 'bench-card-' || idempotency_key AS key,
         auditor.derive_id('payment', partner_id, 'bench-card-' || idempotency_key) AS card,
         auditor.derive_id('refund', partner_id, 'bench-card-' || idempotency_key) AS refund
  FROM ledger.transactions AS t WHERE kind = 'payment' LIMIT $1::integer
), cards AS (
  INSERT INTO ledger.transactions
  SELECT (jsonb_populate_record(t, jsonb_build_object('txn_id', card, 'idempotency_key', key,
    'payment_method', 'pm_card_visa', 'provider', 'stripe', 'provider_intent_id', 'pi_' || card,
    'provider_charge_id', 'ch_' || card, 'refund_reserved', 1, 'amount_refunded', 1))).*
  FROM chosen
), refunds AS (
  INSERT INTO ledger.transactions
  SELECT (jsonb_populate_record(t, jsonb_build_object('txn_id', refund, 'idempotency_key', key,
    'kind', 'refund', 'payment_id', card, 'requested_amount', 1, 'amount', 1,
    'provider', 'stripe', 'provider_refund_id', 're_' || refund))).*
  FROM chosen
)
INSERT INTO auditor.provider_journal
  (provider, kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id, changed_at)
SELECT 'stripe', kind, CASE kind WHEN 'intent' THEN 'pi_' WHEN 'charge' THEN 'ch_' ELSE 're_' END
    || CASE kind WHEN 'refund' THEN refund ELSE card END,
  'succeeded', (t).amount, (t).currency, (t).created_at, 'pi_' || card,
  CASE kind WHEN 'refund' THEN refund ELSE card END, (t).partner_id, (t).settled_at
FROM chosen, unnest(ARRAY['intent', 'charge', 'refund']) AS journal (kind)

-- name: makeClaims
-- So many claims that were completed, of a namespace of their own. $1 how many.
WITH claimed AS (
  INSERT INTO claims.claims (namespace, txn_id, fingerprint, state, owner, lease_until, expires_at,
    partner, kind, accepted_at, response_version)
  SELECT 'bench', gen_random_uuid(), sha256(n::text::bytea), 'completed', gen_random_uuid(), now(),
    now() + interval '1 day', 'acme', 'payment', now(), 3
  FROM generate_series(1, $1::integer) AS n
  RETURNING txn_id
), shown AS (
  INSERT INTO claims.claims_shown
  SELECT 'bench', txn_id, '{}', now() + interval '1 minute' FROM claimed
)
INSERT INTO claims.claims_held
SELECT 'bench', 'partner-' || partner, bucket, 1, 1, '{1}', 1, 1, 1
FROM generate_series(1, 400) AS partner, generate_series(0, 63) AS bucket

-- name: listLarge
-- The tables that have grown.
SELECT relnamespace::regnamespace || '.' || relname AS name
FROM pg_class WHERE relkind IN ('r', 'p') AND reltuples >= 5000

-- name: listWhole
-- The indexes that grow with their tables: all but those of rows that leave them once they are done
-- with.
SELECT index.relname AS name
FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
JOIN pg_class AS own ON own.oid = indrelid
WHERE own.reltuples >= 5000 AND index.reltuples >= 5000

-- name: listRanges
-- The indexes by ranges of pages. They narrow what is read by a bound; what has no value may be in
-- any range that had a row without one when it was summarised, and in all that are not yet.
SELECT relname AS name FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE amname = 'brin'
