-- Makes a partner with one API key and one webhook endpoint, or leaves them as they are.
--
-- $1 partner id, $2 SHA-256 of the API key, $3 webhook URL, $4 webhook secret.
-- Always one row: `key_holder` is the partner whom the key belongs to afterwards, null when it was
-- this call that gave it to $1. A secret that the endpoint has already stays where it is; another
-- one becomes the newest, and the one before it stays good.
WITH partner AS (
  INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT (id) DO NOTHING
), api_key AS (
  INSERT INTO partners.api_keys (sha256, partner_id) VALUES ($2, $1) ON CONFLICT (sha256) DO NOTHING
), endpoint AS (
  INSERT INTO partners.webhook_endpoints (partner_id, url, secrets)
  VALUES ($1, $3, jsonb_build_array($4::text))
  ON CONFLICT (partner_id) DO UPDATE SET
    url = excluded.url,
    updated_at = now(),
    secrets = CASE
      WHEN webhook_endpoints.secrets ? $4 THEN webhook_endpoints.secrets
      ELSE jsonb_build_array($4::text, webhook_endpoints.secrets -> 0)
    END
)
SELECT (SELECT partner_id FROM partners.api_keys WHERE sha256 = $2) AS key_holder
