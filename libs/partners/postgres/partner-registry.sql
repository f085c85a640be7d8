-- Partners and their keys as an operator manages them, by a role that may write them.

-- name: listPartners
-- Every partner with its keys, each key's secret part left out.
--
-- A row: one partner, `keys` the oldest first. Times are texts in UTC.
SELECT id, coalesce(
  jsonb_agg(
    jsonb_build_object('prefix', prefix, 'created_at', k.created_at, 'revoked_at', revoked_at)
    ORDER BY k.created_at, sha256
  ) FILTER (WHERE sha256 IS NOT NULL), '[]'
) AS keys
FROM partners.partners
LEFT JOIN partners.api_keys AS k ON partner_id = id
GROUP BY id
ORDER BY id

-- name: addPartner
-- Makes a partner with its first API key.
--
-- $1 partner id, $2 SHA-256 of the key, $3 what may be shown of it.
-- A row: made. No row: there is such a partner, and nothing was written.
WITH partner AS (
  INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT (id) DO NOTHING RETURNING id
)
INSERT INTO partners.api_keys (sha256, partner_id, prefix) SELECT $2, id, $3 FROM partner
RETURNING partner_id

-- name: addApiKey
-- Gives a partner one more API key; the others go on until they are revoked.
--
-- $1 partner id, $2 SHA-256 of the key, $3 what may be shown of it.
-- A row: made. No row: there is no such partner.
INSERT INTO partners.api_keys (sha256, partner_id, prefix)
SELECT $2, id, $3 FROM partners.partners WHERE id = $1
RETURNING partner_id

-- name: revokeApiKey
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

-- name: seedPartner
-- Makes a partner with one API key and one webhook endpoint, or leaves them as they are.
--
-- $1 partner id, $2 SHA-256 of the API key, $3 webhook URL, $4 webhook secret, $5 what may be shown
-- of the key.
-- Always one row: `key_holder` is the partner whom the key belongs to afterwards, null when it was
-- this call that gave it to $1. A secret that signs already stays where it is; another one becomes
-- the newest, and the one before it stays good for a day.
WITH partner AS (
  INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT (id) DO NOTHING
), api_key AS (
  INSERT INTO partners.api_keys (sha256, partner_id, prefix) VALUES ($2, $1, $5)
  ON CONFLICT (sha256) DO NOTHING
), endpoint AS (
  INSERT INTO partners.webhook_endpoints AS known (partner_id, url, secrets)
  VALUES ($1, $3, jsonb_build_array($4::text))
  ON CONFLICT (partner_id) DO UPDATE SET
    url = excluded.url,
    disabled_at = NULL,
    updated_at = now(),
    (secrets, second_secret_until) = (
      SELECT
        CASE WHEN signs THEN known.secrets ELSE jsonb_build_array($4::text, known.secrets -> 0) END,
        CASE WHEN signs THEN known.second_secret_until ELSE now() + interval '24 hours' END
      FROM (SELECT known.secrets ->> 0 = $4
                OR coalesce(known.secrets ->> 1 = $4 AND known.second_secret_until > now(), false)
      ) AS t (signs)
    )
)
SELECT (SELECT partner_id FROM partners.api_keys WHERE sha256 = $2) AS key_holder
