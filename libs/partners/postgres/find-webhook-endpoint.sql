-- Where a partner's webhooks go, and what they are signed with.
--
-- $1 partner id.
-- A row: its URL, the secrets that are good now, newest first, whether it is disabled, and its
-- version, another one after every change; as text, which a Date would round. No row: the partner
-- has no endpoint.
SELECT url, CASE WHEN second_secret_until <= now() THEN secrets - 1 ELSE secrets END AS secrets,
       disabled_at IS NOT NULL AS disabled, updated_at::text AS version
FROM partners.webhook_endpoints
WHERE partner_id = $1
