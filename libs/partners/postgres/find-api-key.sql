-- Whose API key it is.
--
-- $1 the key's SHA-256.
-- A row: it authenticates `partner_id`. No row: there is no such key, or it was revoked.
SELECT partner_id FROM partners.api_keys WHERE sha256 = $1 AND revoked_at IS NULL
