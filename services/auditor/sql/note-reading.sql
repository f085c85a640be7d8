-- Takes into the book what the provider said of one that it was asked about.
--
-- $1 a JSON object with the fields below.
INSERT INTO provider_book AS known
  (kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
SELECT kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id
FROM json_to_record($1::json) AS row (
  kind text, id text, status text, amount bigint, currency text, created_at timestamptz,
  intent_id text, txn_id uuid, partner_id text
)
ON CONFLICT (kind, id) DO UPDATE SET status = excluded.status, seen_at = now()
