-- API keys as partners manage them through the gateway. The functions are in
-- migrations/0001-baseline.sql, and record what a partner did with it.

-- name: showApiKeys
-- A partner's keys as the partner may see them: the good ones, the oldest first, then those that
-- expired within the last 30 days, the last to expire first.
--
-- $1 partner id, $2 rows at most. A row: a key, when it was made, expires (null: never) and was
-- last used (null: never), to within some minutes.
SELECT key_id, name, prefix, scope, api_version, created_at, expires_at, last_used_at
FROM partners.shown_api_keys
WHERE partner_id = $1
ORDER BY coalesce(is_expired, false), CASE WHEN is_expired THEN expires_at END DESC,
         created_at, key_id
LIMIT $2

-- name: makeApiKey
-- Makes a key by the idempotency key that its id is made from.
--
-- $1 partner id, $2 the id of the key that asks, $3 the new one's, $4 fingerprint of the request,
-- $5 SHA-256 of the new key, $6 what may be shown of it, $7 its scope, $8 its name or null, $9 when
-- it expires or null, $10 the key, sealed, $11 how many good ones a partner may have,
-- $12 the version of the interface that it is made under.
-- Always one row: what came of it, and where it was made, now or before, when, how it begins, and
-- the sealed key while it is shown, and when it expires or null: where it would expire after the
-- key that asks, when that does.
SELECT outcome, created_at, prefix, api_version, sealed, expires_at
FROM partners.make_api_key($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11, $12)

-- name: deleteApiKey
-- Ends a key.
--
-- $1 partner id, $2 the id of the key that asks, $3 of the one to end. Always one row: what came of
-- it.
SELECT partners.delete_api_key($1, $2, $3) AS outcome
