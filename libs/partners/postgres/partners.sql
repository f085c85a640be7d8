-- Partners as the services need them: whose key it is, and where their webhooks go.

-- name: findApiKeys
-- Whose API keys they are.
--
-- $1 SHA-256 hashes of keys, 1 000 at most.
-- A row: the key with this hash authenticates `partner_id`, whose texts may look like card numbers
-- in those fields, for what is in its scope, until it expires (null: for ever), in the version
-- of the interface that it was made under (null: the current one). No row: there is no such key, or
-- it was revoked.
SELECT sha256, key_id, partner_id, card_numbers_in, scope, api_version, expires_at
FROM partners.api_keys JOIN partners.partners ON id = partner_id
WHERE sha256 = ANY ($1::bytea[]) AND revoked_at IS NULL

-- name: noteKeyUses
-- Writes down when API keys were last used, by the function that the table's owner lends for it.
--
-- $1 ids of keys, 1 000 at most, $2 how many seconds ago each was used.
SELECT partners.note_api_key_uses($1::uuid[], $2::double precision[])

-- name: findWebhookEndpoints
-- Where the webhooks of endpoints go, and what they are signed with.
--
-- $1 endpoint ids.
-- A row: an endpoint's partner, its URL and that URL's host, the secrets that are good now, newest
-- first, and its version, another one after every change; as text, which a Date would round. No
-- row: it is not open: its server has yet to prove that it wants webhooks, or wants no more, or it
-- was deleted.
SELECT endpoint_id, partner_id, url, host,
       CASE WHEN second_secret_until <= now() THEN secrets - 1 ELSE secrets END AS secrets,
       updated_at::text AS version
FROM partners.open_webhook_endpoints
WHERE endpoint_id = ANY ($1::uuid[])

-- name: disableWebhookEndpoint
-- Disables a webhook endpoint, by the function that the table's owner lends for it.
--
-- $1 endpoint id, $2 the version of the endpoint that wants no more webhooks.
-- Always one row: whether it is disabled by this call; not so when it was before, or was changed
-- since.
SELECT partners.disable_webhook_endpoint($1, $2::timestamptz) AS disabled

-- name: takeEndpointQuestions
-- Takes tests of endpoints and endpoints that are to be asked whether they want webhooks, by the
-- function that the table's owner lends for it and that says how often which one may be asked.
--
-- $1 endpoints and notices at most, but for tests, $2 whether they are asked, at a pace. A row: one
-- to be asked by the caller, once, with its version and which question it is, or which test, or
-- which notice and what that says; a question is asked again after a pause unless the endpoint is
-- verified, and a notice is sent again unless it was answered.
SELECT endpoint_id, partner_id, url, secrets, version, asks, test_id, notice
FROM partners.take_endpoint_questions($1, $2)

-- name: verifyWebhookEndpoint
-- Opens a webhook endpoint, by the function that the table's owner lends for it.
--
-- $1 endpoint id, $2 the version of the endpoint that was asked, $3 by what it is known to want
-- webhooks. Always one row: whether it is open by this call; not so when it was changed since.
SELECT partners.verify_webhook_endpoint($1, $2::timestamptz, $3) AS verified

-- name: answerEndpointNotice
-- Says that a notice was delivered, by the function that the table's owner lends for it.
--
-- $1 notice id.
SELECT partners.answer_endpoint_notice($1)

-- name: answerWebhookTest
-- Says what came back of a test, by the function that the table's owner lends for it.
--
-- $1 test id, $2 endpoint id, $3 what it came to, $4 HTTP status or null, $5 milliseconds.
SELECT partners.answer_webhook_test($1, $2, $3, $4, $5)
