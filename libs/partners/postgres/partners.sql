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
-- A row: its URL, the secrets that are good now, newest first, and its version, another one after
-- every change; as text, which a Date would round. No row: the partner has no open endpoint: it has
-- set none, or its server wants no more webhooks.
SELECT url, CASE WHEN second_secret_until <= now() THEN secrets - 1 ELSE secrets END AS secrets,
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
