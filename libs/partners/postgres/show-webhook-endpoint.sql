-- A partner's webhook endpoint as the partner may see it: without its secrets.
--
-- $1 partner id.
-- A row: its URL, until when a second secret signs too (null: there is none), when either was
-- last set, and since when it is disabled (null: it is not). No row: the partner has no endpoint.
SELECT url,
       CASE WHEN second_secret_until > now() THEN second_secret_until END AS second_secret_until,
       updated_at, disabled_at
FROM partners.webhook_endpoints
WHERE partner_id = $1
