-- Partners as the services need them: whose key it is, and where their webhooks go.

-- name: findApiKeys
-- Whose API keys they are.
--
-- $1 SHA-256 hashes of keys, 1 000 at most.
-- A row: the key with this hash authenticates `partner_id`, whose texts may look like card numbers
-- or not. No row: there is no such key, or it was revoked.
SELECT sha256, partner_id, card_numbers_allowed
FROM partners.api_keys JOIN partners.partners ON id = partner_id
WHERE sha256 = ANY ($1::bytea[]) AND revoked_at IS NULL

-- name: findWebhookEndpoint
-- Where a partner's webhooks go, and what they are signed with.
--
-- $1 partner id.
-- A row: its URL and that URL's host, the secrets that are good now, newest first, and its
-- version, another one after every change; as text, which a Date would round. No row: the partner
-- has no open endpoint: it has set none, or its server has yet to prove that it wants webhooks,
-- or wants no more.
SELECT url, host, CASE WHEN second_secret_until <= now() THEN secrets - 1 ELSE secrets END AS secrets,
       updated_at::text AS version
FROM partners.open_webhook_endpoints
WHERE partner_id = $1

-- name: disableWebhookEndpoint
-- Disables a partner's webhook endpoint, by the function that the table's owner lends for it.
--
-- $1 partner id, $2 the version of the endpoint that wants no more webhooks.
-- Always one row: whether it is disabled by this call; not so when it was before, or was changed
-- since.
SELECT partners.disable_webhook_endpoint($1, $2::timestamptz) AS disabled

-- name: takeUnverifiedEndpoints
-- Takes endpoints that are to be asked whether they want webhooks, by the function that the table's
-- owner lends for it and that says how often which one may be asked.
--
-- $1 endpoints at most, $2 whether they are asked, at a pace. A row: one to be asked by the
-- caller, once, with its version and which question it is; it is asked again after a pause unless
-- it is verified.
SELECT partner_id, url, secrets, version, asks FROM partners.take_unverified_endpoints($1, $2)

-- name: verifyWebhookEndpoint
-- Opens a partner's webhook endpoint, by the function that the table's owner lends for it.
--
-- $1 partner id, $2 the version of the endpoint that was asked, $3 by what it is known to want
-- webhooks. Always one row: whether it is open by this call; not so when it was changed since.
SELECT partners.verify_webhook_endpoint($1, $2::timestamptz, $3) AS verified
