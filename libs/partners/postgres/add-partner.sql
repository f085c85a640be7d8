-- Makes a partner with its first API key.
--
-- $1 partner id, $2 SHA-256 of the key, $3 what may be shown of it.
-- A row: made. No row: there is such a partner, and nothing was written.
WITH partner AS (
  INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT (id) DO NOTHING RETURNING id
)
INSERT INTO partners.api_keys (sha256, partner_id, prefix) SELECT $2, id, $3 FROM partner
RETURNING partner_id
