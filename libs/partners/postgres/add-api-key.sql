-- Gives a partner one more API key; the others go on until they are revoked.
--
-- $1 partner id, $2 SHA-256 of the key, $3 what may be shown of it.
-- A row: made. No row: there is no such partner.
INSERT INTO partners.api_keys (sha256, partner_id, prefix)
SELECT $2, id, $3 FROM partners.partners WHERE id = $1
RETURNING partner_id
