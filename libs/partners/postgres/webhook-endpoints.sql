-- Webhook endpoints as partners manage them through the gateway, which may read no secret.

-- name: showEndpoint
-- A partner's webhook endpoint as the partner may see it: without its secrets.
--
-- $1 partner id.
-- A row: its URL, whether its server has proved that it wants webhooks, until when a second secret
-- signs too (null: there is none), when URL or secret was last set, and since when it is disabled
-- (null: it is not). No row: the partner has no endpoint.
SELECT url, verified_url IS NOT DISTINCT FROM url AS verified,
       CASE WHEN second_secret_until > now() THEN second_secret_until END AS second_secret_until,
       updated_at, disabled_at
FROM partners.webhook_endpoints
WHERE partner_id = $1

-- name: setWebhookUrl
-- Sets where a partner's webhooks go, enables the endpoint, and makes it when there is none.
-- Another URL than the one that was verified is open when the notifier has verified it.
--
-- $1 partner id, $2 URL, $3 the sealed secret of an endpoint that is made by this call, $4 the
-- URL's host. Always one row: the endpoint now. `made` says that $3 is its secret; otherwise $3
-- was not used. A change is an act of the partner, recorded with it; the same URL once more is
-- none. Notifiers are told behind the commit.
WITH before AS (
  SELECT url FROM partners.webhook_endpoints WHERE partner_id = $1 AND disabled_at IS NULL
), endpoint AS (
  INSERT INTO partners.webhook_endpoints AS known (partner_id, url, host, secrets)
  VALUES ($1, $2, $4, jsonb_build_array($3::jsonb))
  ON CONFLICT (partner_id) DO UPDATE SET
    url = excluded.url,
    host = $4,
    disabled_at = NULL,
    times_set = known.times_set + 1,
    updated_at = now()
  RETURNING partner_id, url, verified_url IS NOT DISTINCT FROM url AS verified,
            CASE WHEN second_secret_until > now() THEN second_secret_until END
              AS second_secret_until,
            updated_at, disabled_at, times_set = 1 AS made
), act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by, why)
  SELECT CASE WHEN made THEN 'make-endpoint' ELSE 'set-endpoint' END, partner_id,
         split_part(url, '?', 1), 'partner ' || partner_id, 'PUT /v1/webhook-endpoint'
  FROM endpoint
  WHERE NOT EXISTS (SELECT FROM before WHERE before.url = endpoint.url)
)
SELECT url, verified, second_secret_until, updated_at, disabled_at, made
FROM endpoint, pg_notify('triplock_webhooks', '')

-- name: rotateWebhookSecret
-- Gives a partner's webhook endpoint a new secret, once per idempotency key; the one before it
-- signs too for a day, or until the next rotation. Two at once go one after the other, and the
-- later one's secret is the newest.
--
-- $1 partner id, $2 idempotency key, $3 the new secret, sealed.
-- A row: the rotation of that key, its `secret` and until when the one before it signs. The secret
-- is $3 when it was this call that made it; another one when the key had rotated before, and
-- nothing was written. No row: the partner has no endpoint. The last two keys are known.
SELECT secret, previous_secret_until FROM partners.rotate_webhook_secret($1, $2, $3::jsonb)
