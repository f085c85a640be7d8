-- Takes a page of the provider's into the book, and moves the walk on.
--
-- $1 kind, $2 a JSON array of objects with the fields below, $3 the cursor by which the page was
-- asked for or null, $4 that of the next page or null, $5 how far everything was known then.
-- A row: the walk went on from here. No row: another one took it on meanwhile, or began it again;
-- the page is in the book all the same.
--
-- What says nothing of us is somebody else's and left out, but for refunds of intents that are
-- ours. What is final stays so when an older answer comes late. A clock of the provider's that ran
-- ahead once does not make later ones seem known.
WITH told AS (
  SELECT * FROM json_to_recordset($2::json) AS row (
    id text, status text, amount bigint, currency text, created_at timestamptz, intent_id text,
    txn_id uuid, partner_id text
  )
), booked AS (
  INSERT INTO provider_book AS known
    (kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
  SELECT $1, id, status, amount, currency, created_at, intent_id, txn_id, partner_id
  FROM told
  WHERE txn_id IS NOT NULL
    OR EXISTS (SELECT FROM provider_book AS ours
               WHERE ours.kind = 'intent' AND ours.id = told.intent_id)
  ORDER BY id
  ON CONFLICT (kind, id) DO UPDATE SET
    status = CASE
      WHEN known.status IN ('succeeded', 'failed')
        AND excluded.status IN ('pending', 'unconfirmed') THEN known.status
      ELSE excluded.status
    END,
    amount = excluded.amount,
    currency = excluded.currency,
    intent_id = excluded.intent_id,
    txn_id = excluded.txn_id,
    partner_id = excluded.partner_id,
    seen_at = now()
)
UPDATE provider_walks SET
  newest = CASE WHEN $4::text IS NOT NULL
    THEN greatest(newest, (SELECT max(created_at) FROM told)) END,
  known_until = CASE WHEN $4::text IS NOT NULL THEN known_until
    ELSE least(now(), greatest(known_until, newest, (SELECT max(created_at) FROM told))) END,
  cursor = $4,
  walked_at = CASE WHEN $4::text IS NOT NULL THEN walked_at ELSE now() END
WHERE kind = $1 AND cursor IS NOT DISTINCT FROM $3::text AND known_until = $5::timestamptz
RETURNING everything_since AS "everythingSince"
