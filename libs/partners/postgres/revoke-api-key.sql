-- Revokes the one key of a partner that is named, if it is one.
--
-- $1 partner id, $2 the beginning of the key, $3 SHA-256 of the same text, should it be a whole
-- key. Always one row: how many of the partner's good keys were named. Only when it is 1 was
-- anything written.
WITH named AS (
  SELECT sha256 FROM partners.api_keys
  WHERE partner_id = $1 AND revoked_at IS NULL AND (starts_with(prefix, $2) OR sha256 = $3)
), revoked AS (
  UPDATE partners.api_keys SET revoked_at = now()
  WHERE sha256 IN (SELECT sha256 FROM named) AND (SELECT count(*) FROM named) = 1
)
SELECT count(*)::integer AS named FROM named
