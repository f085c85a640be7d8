-- Whose API keys they are.
--
-- $1 SHA-256 hashes of keys, 1 000 at most.
-- A row: the key with this hash authenticates `partner_id`. No row: there is no such key, or it was
-- revoked.
SELECT sha256, partner_id FROM partners.api_keys
WHERE sha256 = ANY ($1::bytea[]) AND revoked_at IS NULL
