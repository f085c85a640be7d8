-- Sets where a partner's webhooks go, enables the endpoint, and makes it when there is none.
--
-- $1 partner id, $2 URL, $3 the secret of an endpoint that is made by this call.
-- Always one row: the endpoint now. `made` says that $3 is its secret; otherwise $3 was not used.
INSERT INTO partners.webhook_endpoints AS known (partner_id, url, secrets)
VALUES ($1, $2, jsonb_build_array($3::text))
ON CONFLICT (partner_id) DO UPDATE SET
  url = excluded.url,
  disabled_at = NULL,
  times_set = known.times_set + 1,
  updated_at = now()
RETURNING url,
          CASE WHEN second_secret_until > now() THEN second_secret_until END AS second_secret_until,
          updated_at, disabled_at,
          times_set = 1 AS made
