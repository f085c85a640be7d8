-- Partners and their keys as an operator manages them, by a role that may write them.

-- name: listPartners
-- Every partner with its keys, each key's secret part left out.
--
-- A row: one partner, `keys` the oldest first. Times are texts in UTC.
SELECT id, card_numbers_in, coalesce(
  jsonb_agg(
    jsonb_build_object(
      'id', key_id, 'prefix', prefix, 'scope', scope, 'created_at', k.created_at,
      'expires_at', expires_at, 'last_used_at', last_used_at, 'revoked_at', revoked_at
    )
    ORDER BY k.created_at, sha256
  ) FILTER (WHERE sha256 IS NOT NULL), '[]'
) AS keys
FROM partners.partners
LEFT JOIN partners.api_keys AS k ON partner_id = id
GROUP BY id
ORDER BY id

-- name: addPartner
-- Makes a partner with its first API key.
--
-- $1 partner id, $2 SHA-256 of the key, $3 what may be shown of it, $4 who, $5 why or null, $6 the
-- version of the interface that it is made under.
-- A row: made. No row: there is such a partner, and nothing was written.
WITH partner AS (
  INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT (id) DO NOTHING RETURNING id
), api_key AS (
  INSERT INTO partners.api_keys (sha256, partner_id, prefix, api_version)
  SELECT $2, id, $3, $6 FROM partner
  RETURNING partner_id
), act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by, why)
  SELECT 'add', partner_id, $3, $4, $5 FROM api_key
)
SELECT partner_id FROM api_key

-- name: addApiKey
-- Gives a partner one more API key; the others go on until they are revoked.
--
-- $1 partner id, $2 SHA-256 of the key, $3 what may be shown of it, $4 who, $5 why or null, $6 its
-- scope, $7 when it expires or null, $8 the version that it is made under. Always one row: whether
-- it was made, and whether there is such a partner; where there is and none was made, it may not
-- expire then.
WITH api_key AS (
  INSERT INTO partners.api_keys (sha256, partner_id, prefix, scope, expires_at, api_version)
  SELECT $2, id, $3, $6, $7, $8 FROM partners.partners
  WHERE id = $1 AND partners.may_expire($7::timestamptz)
  RETURNING partner_id
), act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by, why)
  SELECT 'rotate-key', partner_id, $3, $4, $5 FROM api_key
)
SELECT EXISTS (SELECT FROM api_key) AS made,
       EXISTS (SELECT FROM partners.partners WHERE id = $1) AS known

-- name: revokeApiKey
-- Revokes the one key of a partner that is named, if it is one.
--
-- $1 partner id, $2 the beginning of the key, $3 SHA-256 of the same text, should it be a whole
-- key, $4 who, $5 why or null. Always one row: how many of the partner's good keys were named. Only
-- when it is 1 was anything written.
WITH named AS (
  SELECT sha256 FROM partners.api_keys
  WHERE partner_id = $1 AND revoked_at IS NULL AND (starts_with(prefix, $2) OR sha256 = $3)
), revoked AS (
  UPDATE partners.api_keys SET revoked_at = now(), sealed = NULL
  WHERE sha256 IN (SELECT sha256 FROM named) AND (SELECT count(*) FROM named) = 1
    -- Of two at once the second sees it revoked, and does nothing.
    AND revoked_at IS NULL
  RETURNING partner_id, prefix
), act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by, why)
  SELECT 'revoke-key', partner_id, prefix, $4, $5 FROM revoked
)
SELECT count(*)::integer AS named FROM named

-- name: setCardNumbers
-- Lets a partner's texts look like card numbers in some fields, and in no others.
--
-- $1 partner id, $2 the fields, `*` for all, $3 who, $4 why or null.
-- A row: whether it was changed, by this call. No row: there is no such partner.
WITH changed AS (
  UPDATE partners.partners SET card_numbers_in = $2::text[]
  WHERE id = $1 AND card_numbers_in <> $2::text[]
  RETURNING id
), act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by, why)
  SELECT
    CASE WHEN cardinality($2::text[]) > 0 THEN 'allow-card-numbers' ELSE 'refuse-card-numbers' END,
    id, nullif(nullif(array_to_string($2::text[], ','), '*'), ''), $3, $4
  FROM changed
)
SELECT EXISTS (SELECT FROM changed) AS changed FROM partners.partners WHERE id = $1

-- name: lockSeeds
-- Until the transaction's end nobody else makes an endpoint of this partner: of two at once the
-- second finds the first one's.
--
-- $1 partner id.
SELECT partners.lock_webhook_endpoints($1)

-- name: seedPartner
-- Makes a partner with one API key and its first webhook endpoint, or leaves them as they are. Its
-- callers go one after the other (lockSeeds).
--
-- $1 partner id, $2 SHA-256 of the API key, $3 webhook URL, $4 webhook secret, sealed, $5 what may
-- be shown of the key, $6 the URL's host, $7 the version of the interface that the key is made
-- under. Who calls this says that the server there wants webhooks.
-- Always one row: `key_holder` is the partner whom the key belongs to afterwards, null when it was
-- this call that gave it to $1. A secret that signs already stays where it is; another one becomes
-- the newest, and the one before it stays good for a day. What changes anything is recorded.
WITH act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by)
  SELECT 'seed', $1, $5, 'launcher'
  WHERE NOT EXISTS (SELECT FROM partners.api_keys WHERE sha256 = $2)
     OR NOT EXISTS (
       SELECT FROM partners.webhook_endpoints
       WHERE endpoint_id = partners.first_webhook_endpoint($1)
         AND url = $3 AND verified_url = url AND disabled_at IS NULL
         AND secrets @> jsonb_build_array(jsonb_build_object('id', $4::jsonb -> 'id'))
     )
), partner AS (
  INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT (id) DO NOTHING
), api_key AS (
  INSERT INTO partners.api_keys (sha256, partner_id, prefix, api_version) VALUES ($2, $1, $5, $7)
  ON CONFLICT (sha256) DO NOTHING
), known AS (
  SELECT endpoint_id, secrets, second_secret_until,
         secrets #> '{0,id}' = $4::jsonb -> 'id'
           OR coalesce(secrets #> '{1,id}' = $4::jsonb -> 'id' AND second_secret_until > now(), false)
           AS signs
  FROM partners.webhook_endpoints
  WHERE endpoint_id = partners.first_webhook_endpoint($1)
), made AS (
  INSERT INTO partners.webhook_endpoints (partner_id, url, host, verified_url, verified_at, secrets)
  SELECT $1, $3, $6, $3, now(), jsonb_build_array($4::jsonb)
  WHERE NOT EXISTS (SELECT FROM known)
), changed AS (
  UPDATE partners.webhook_endpoints AS endpoint SET
    url = $3,
    url_set_at = CASE WHEN endpoint.url = $3 THEN endpoint.url_set_at ELSE now() END,
    host = $6,
    verified_url = $3,
    verified_at = now(),
    failing_since = NULL,
    disabled_at = NULL,
    updated_at = now(),
    secrets = CASE WHEN signs THEN known.secrets
                   ELSE jsonb_build_array($4::jsonb, known.secrets -> 0) END,
    second_secret_until = CASE WHEN signs THEN known.second_secret_until
                               ELSE now() + interval '24 hours' END
  FROM known
  WHERE endpoint.endpoint_id = known.endpoint_id
)
SELECT (SELECT partner_id FROM partners.api_keys WHERE sha256 = $2) AS key_holder

-- name: listActs
-- What was done to partners, the newest last.
--
-- $1 partner id or null for all, $2 rows at most, of the newest.
SELECT act, partner_id AS partner, subject, done_by AS by, why, done_at AS at
FROM (
  SELECT * FROM partners.acts WHERE $1::text IS NULL OR partner_id = $1
  ORDER BY act_id DESC LIMIT $2
) AS newest
ORDER BY act_id

-- name: takeOlderSeals
-- Endpoints that have a secret, or the memory of a rotation, under another key than the newest.
--
-- $1 the newest key's id, $2 endpoint id after which to look, $3 rows at most.
SELECT endpoint_id, partner_id, secrets, rotations FROM partners.webhook_endpoints
WHERE endpoint_id > $2::uuid
  AND jsonb_path_exists(
    jsonb_build_array(secrets, jsonb_path_query_array(rotations, '$[*].secret')),
    '$[*][*] ? (@.key != $newest)', jsonb_build_object('newest', $1::text)
  )
ORDER BY endpoint_id
LIMIT $3

-- name: countKeySeals
-- How many API keys that nobody has used yet are kept sealed with another key than the newest.
--
-- $1 the newest key's id. Always one row.
SELECT count(*)::integer AS others FROM partners.api_keys
WHERE sealed IS NOT NULL AND sealed ->> 'key' <> $1

-- name: replaceSeals
-- Puts the same secrets back under another key, unless the partner has rotated meanwhile. Its
-- version stays: nothing that anybody is told has changed.
--
-- $1 endpoint id, $2 secrets and $3 rotations as they were, $4 and $5 as they shall be, $6 the
-- key's id, $7 who, $8 why or null. A row: done. No row: the endpoint was changed since, and
-- nothing was written.
WITH resealed AS (
  UPDATE partners.webhook_endpoints SET secrets = $4::jsonb, rotations = $5::jsonb
  WHERE endpoint_id = $1 AND secrets = $2::jsonb AND rotations = $3::jsonb
  RETURNING partner_id
), act AS (
  INSERT INTO partners.acts (act, partner_id, subject, done_by, why)
  SELECT 'reseal-secrets', partner_id, $6, $7, $8 FROM resealed
)
SELECT partner_id FROM resealed
