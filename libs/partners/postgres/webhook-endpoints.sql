-- Webhook endpoints as partners manage them through the gateway, which may read no secret. The
-- functions are in migrations/0001-baseline.sql; they tell senders behind the commit, and record
-- what a partner did with it.

-- name: showEndpoints
-- A partner's webhook endpoints as the partner may see them: without secrets. The oldest first.
--
-- $1 partner id, $2 endpoint id or null for all.
-- A row: its URL, note and types of events (null: all), whether its server has proved that it
-- wants webhooks, until when a second secret signs too (null: there is none), when URL or secret
-- was last set, since when it has taken nothing (null: it takes what is sent), and since when it is
-- disabled and why (null: it is not).
SELECT endpoint_id, made_at, url, description, event_types, verified, second_secret_until,
       updated_at, failing_since, disabled_at, disabled_because
FROM partners.shown_webhook_endpoints
WHERE partner_id = $1 AND ($2::uuid IS NULL OR endpoint_id = $2)
ORDER BY made_at, endpoint_id

-- name: makeEndpoint
-- Makes a webhook endpoint by the key that its id is made from.
--
-- $1 partner id, $2 endpoint id, $3 fingerprint of the request, $4 URL, $5 the URL's host, $6 types
-- of events or null for all, $7 note or null, $8 a new secret, sealed, $9 how many a partner may
-- have. Always one row: what came of it, and where it was made, now or before, when and its secret.
SELECT outcome, made_at, secret
FROM partners.make_webhook_endpoint($1, $2, $3, $4, $5, $6::text[], $7, $8::jsonb, $9)

-- name: setFirstEndpoint
-- Sets where the webhooks of a partner's oldest endpoint go, and enables it; makes one when there
-- is none. Another URL than the one that was verified is open when it has been verified.
--
-- $1 partner id, $2 the id of one that is made, $3 URL, $4 the URL's host, $5 the sealed secret of
-- one that is made. Always one row: the endpoint now; it was made by this call when $2 is its id.
SELECT endpoint_id, made_at, url, description, event_types, verified, second_secret_until,
       updated_at, failing_since, disabled_at, disabled_because
FROM partners.set_first_webhook_endpoint($1, $2, $3, $4, $5::jsonb)

-- name: changeEndpoint
-- Changes what is named of a partner's webhook endpoint.
--
-- $1 partner id, $2 endpoint id, $3 what to change (`change_webhook_endpoint` says which).
-- A row: the endpoint now. No row: the partner has no such one.
SELECT endpoint_id, made_at, url, description, event_types, verified, second_secret_until,
       updated_at, failing_since, disabled_at, disabled_because
FROM partners.change_webhook_endpoint($1, $2, $3::jsonb, 'PATCH /v1/webhook-endpoints')

-- name: deleteEndpoint
-- Deletes a partner's webhook endpoint with its secrets.
--
-- $1 partner id, $2 endpoint id. Always one row: whether it was there.
SELECT partners.delete_webhook_endpoint($1, $2) AS deleted

-- name: rotateWebhookSecret
-- Gives a partner's webhook endpoint a new secret, once per idempotency key; the one before it
-- signs too for a day, or until the next rotation. Two at once go one after the other, and the
-- later one's secret is the newest.
--
-- $1 partner id, $2 endpoint id or null for the oldest, $3 idempotency key, $4 the new secret,
-- sealed.
-- A row: the rotation of that key, its `secret` and until when the one before it signs. The secret
-- is $4 when it was this call that made it; another one when the key had rotated before, and
-- nothing was written. No row: the partner has no such endpoint. The last two keys are known.
SELECT secret, previous_secret_until FROM partners.rotate_webhook_secret($1, $2, $3, $4::jsonb)

-- name: rotateSecretAs
-- The same by an operator, for the role that manages partners.
--
-- $1 to $4 as above, $5 who, $6 why or null, $7 whether also while two secrets sign. No row: the
-- partner has no such endpoint, or two secrets sign.
SELECT secret, previous_secret_until
FROM partners.rotate_secret_as($1, $2, $3, $4::jsonb, $5, $6, $7)

-- name: askTest
-- Asks a notifier to send a test to a partner's webhook endpoint.
--
-- $1 partner id, $2 endpoint id, $3 test id. Always one row: what came of asking.
SELECT partners.ask_webhook_test($1, $2, $3) AS outcome

-- name: readTest
-- What came back of a test.
--
-- $1 endpoint id, $2 test id. A row: it is over. No row: not yet, or another test was asked for
-- since.
SELECT outcome, status, took_ms FROM partners.endpoint_tests
WHERE endpoint_id = $1 AND test_id = $2 AND answered_at IS NOT NULL
