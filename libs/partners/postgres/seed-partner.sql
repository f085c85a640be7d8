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
