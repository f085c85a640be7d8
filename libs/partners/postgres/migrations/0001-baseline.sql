-- Who may send payments, by which keys, and where their webhooks go.

CREATE TABLE partners (
  id text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Whether its keys, references, descriptions, reasons and metadata may look like the numbers of
  -- payment cards. Only for one that is certain never to send a real one: what it sends is kept.
  card_numbers_allowed boolean NOT NULL DEFAULT false
);

-- A key is never stored, only what SHA-256 makes of it: keys are random enough that no salt is
-- needed, and a leaked table authenticates nobody.
CREATE TABLE api_keys (
  sha256 bytea PRIMARY KEY CHECK (length(sha256) = 32),
  partner_id text NOT NULL REFERENCES partners,
  -- What of the key may be shown, so that an operator can tell keys apart and revoke the right one;
  -- null where so short a key was given that nothing may.
  prefix text,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Null while the key is good.
  revoked_at timestamptz
);

-- Whether each is a sealed secret, and says what with: rotating keys goes by that.
CREATE FUNCTION are_sealed(secrets jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN NOT EXISTS (
  SELECT FROM jsonb_array_elements(secrets) AS each
  WHERE (jsonb_typeof(each -> 'id') = 'string' AND jsonb_typeof(each -> 'key') = 'string'
         AND jsonb_typeof(each -> 'box') = 'string') IS NOT TRUE
);

CREATE TABLE webhook_endpoints (
  partner_id text PRIMARY KEY REFERENCES partners,
  url text NOT NULL,
  -- The host of the URL, as connections are made to it (target-policy.ts): webhooks have a rate by it.
  host text NOT NULL CHECK (host <> ''),
  -- The URL whose server has proved last that it wants webhooks, and when. While it is another one than
  -- `url`, nothing is sent to the endpoint but the question (take_unverified_endpoints).
  verified_url text,
  verified_at timestamptz,
  CONSTRAINT verified_once CHECK ((verified_url IS NULL) = (verified_at IS NULL)),
  -- How often the URL was set. 1 tells whoever set it that there was no endpoint before, without a
  -- look at its secrets.
  times_set integer NOT NULL DEFAULT 1,
  -- Sealed, each as `id`, `key` and `box` (webhook-endpoints.ts), because every webhook is signed with
  -- them: a secret as it is, a text, cannot be stored. Newest first; a second one only while they
  -- rotate.
  secrets jsonb NOT NULL CHECK (
    jsonb_typeof(secrets) = 'array' AND jsonb_array_length(secrets) BETWEEN 1 AND 2
    AND partners.are_sealed(secrets)
  ),
  -- Until when the second secret signs too: a day after the rotation that made it the second.
  second_secret_until timestamptz,
  CONSTRAINT second_secret_ends
    CHECK ((jsonb_array_length(secrets) = 2) = (second_secret_until IS NOT NULL)),
  -- The last two rotations, newest first, as they were answered: `key`, `secret` and `until`, the
  -- end of the secret before it. Of older ones no secret signs any more. A rotation takes effect
  -- once per idempotency key: otherwise each retry would make another secret, and of two good ones
  -- throw out the one in use.
  rotations jsonb NOT NULL DEFAULT '[]' CHECK (
    jsonb_typeof(rotations) = 'array' AND jsonb_array_length(rotations) <= 2
    AND partners.are_sealed(jsonb_path_query_array(rotations, '$[*].secret'))
  ),
  -- A server that answers 410 Gone wants no more webhooks: its endpoint is disabled until its
  -- partner sets it again, and until then it is as if there were none.
  disabled_at timestamptz,
  -- Also the version of the endpoint: another one after every change of URL or secret.
  updated_at timestamptz NOT NULL DEFAULT now()
);

-- Endpoints that webhooks are sent to, and since when. Of a partner that is not here, because it has never
-- set one, its server has yet to prove that it wants them, or answered 410 Gone, deliveries are parked.
CREATE VIEW open_webhook_endpoints AS
SELECT partner_id, url, host, secrets, second_secret_until, updated_at,
       greatest(updated_at, verified_at) AS open_since
FROM webhook_endpoints
WHERE disabled_at IS NULL AND verified_url = url;

CREATE INDEX endpoints_unverified ON webhook_endpoints (partner_id)
  WHERE disabled_at IS NULL AND verified_url IS DISTINCT FROM url;

-- What each partner's endpoint was asked last. It outlives the endpoint's changes: however often a partner
-- sets a URL, its own or another's, it has one question sent in ten seconds.
CREATE TABLE endpoint_verifications (
  partner_id text PRIMARY KEY REFERENCES partners,
  -- The version of the endpoint that was asked; another one is asked from the beginning.
  version timestamptz NOT NULL,
  host text NOT NULL,
  asked_at timestamptz NOT NULL,
  -- How often this version was asked, and when it is asked again: null when that was the last time.
  asks integer NOT NULL,
  next_at timestamptz
);
CREATE INDEX verifications_lately ON endpoint_verifications (asked_at);

-- What was done to partners, their keys and their endpoints: who, when and why. It is written by
-- the statement that did it, and only added to, whoever asks.
CREATE TABLE acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act text NOT NULL CHECK (act IN (
    'add', 'rotate-key', 'revoke-key', 'seed', 'make-endpoint', 'set-endpoint', 'verify-endpoint',
    'disable-endpoint', 'rotate-secret', 'reseal-secrets', 'allow-card-numbers', 'refuse-card-numbers'
  )),
  partner_id text NOT NULL REFERENCES partners,
  -- Which key, by what may be shown of it; which URL, without its query; which secret, by its id;
  -- which key secrets are sealed with now.
  subject text,
  done_by text NOT NULL CHECK (done_by <> ''),
  why text,
  done_at timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER acts_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON acts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

-- Gives a partner's endpoint a new secret, unless it was rotated under this key. The gateway may
-- read secrets by this alone, and only those that it made under the key that it shows.
--
-- A row: the rotation of that key; `new_secret` is its secret when it was this call that made it.
-- No row: the partner has no endpoint. Two at once go one after the other by the row's lock, and
-- everything is decided by the row as it is then.
CREATE FUNCTION rotate_webhook_secret(of_partner text, by_key text, new_secret jsonb)
RETURNS TABLE (secret jsonb, previous_secret_until timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH rotated AS (
    UPDATE webhook_endpoints AS known SET
      (secrets, second_secret_until, rotations, updated_at) = (
        SELECT
          CASE WHEN retried THEN known.secrets
               ELSE jsonb_build_array(new_secret, known.secrets -> 0) END,
          CASE WHEN retried THEN known.second_secret_until ELSE tomorrow END,
          CASE WHEN retried THEN known.rotations
               ELSE jsonb_build_array(
                 jsonb_build_object('key', by_key, 'secret', new_secret, 'until', tomorrow)
               ) || jsonb_path_query_array(known.rotations, '$[0]') END,
          CASE WHEN retried THEN known.updated_at ELSE now() END
        FROM (SELECT now() + interval '24 hours',
                     known.rotations @> jsonb_build_array(jsonb_build_object('key', by_key))
        ) AS t (tomorrow, retried)
      )
    WHERE partner_id = of_partner
    RETURNING
      (SELECT each -> 'secret' FROM jsonb_array_elements(known.rotations) AS each
       WHERE each ->> 'key' = by_key) AS secret,
      (SELECT (each ->> 'until')::timestamptz FROM jsonb_array_elements(known.rotations) AS each
       WHERE each ->> 'key' = by_key) AS until
  ), act AS (
    INSERT INTO acts (act, partner_id, subject, done_by, why)
    SELECT 'rotate-secret', of_partner, rotated.secret ->> 'id', 'partner ' || of_partner,
           'POST /v1/webhook-endpoint/secrets'
    FROM rotated WHERE rotated.secret = new_secret
  )
  SELECT rotated.secret, rotated.until FROM rotated;
END;

-- Disables a partner's endpoint, unless it was changed since it was as of `of_version`: a 410 Gone
-- that was long on its way must not disable an endpoint that its partner has set again since, to
-- the same URL too.
--
-- Returns whether it is disabled by this call. A rotated secret is a change as well; the next attempt
-- asks the server again. What the server had proved before no longer counts: set again, to the same
-- URL too, it is asked whether it wants webhooks after all.
CREATE FUNCTION disable_webhook_endpoint(of_partner text, of_version timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH disabled AS (
    UPDATE webhook_endpoints SET disabled_at = now(), verified_url = NULL, verified_at = NULL
    WHERE partner_id = of_partner AND updated_at = of_version AND disabled_at IS NULL
    RETURNING partner_id
  ), act AS (
    INSERT INTO acts (act, partner_id, done_by, why)
    SELECT 'disable-endpoint', partner_id, 'partner-notifier', 'its server answered 410 Gone'
    FROM disabled
  )
  SELECT EXISTS (SELECT FROM disabled);
END;

-- Takes endpoints that are to be asked whether they want webhooks: those that were set, and have not
-- proved it. Each is asked at once, and then after pauses that grow from 30 s to an hour, 28 times, which
-- is about a day; a change of the endpoint, such as the same URL once more, begins anew.
--
-- A row: the caller's to ask, within ten seconds; `asks` counts from 1. A caller that dies leaves it to the
-- next pause. A partner has one question in ten seconds, and a host, which many partners may name, five:
-- nobody has been asked yet whether it is the partner's. Takers go one after the other, so that each
-- counts what the others took. Without `paced`, where nobody is asked, all of them are taken at once.
CREATE FUNCTION take_unverified_endpoints(rows_max integer, paced boolean)
RETURNS TABLE (partner_id text, url text, secrets jsonb, version text, asks integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
#variable_conflict use_column
DECLARE
  taken_at timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('take_unverified_endpoints', 0));
  -- Not now(), which was before the wait: the last taker's would be in the future.
  taken_at := clock_timestamp();
  RETURN QUERY
    WITH due AS (
      SELECT endpoint.partner_id, endpoint.url, endpoint.host, endpoint.updated_at,
             CASE WHEN known.version = endpoint.updated_at THEN known.asks ELSE 0 END + 1 AS asks,
             row_number() OVER (
               PARTITION BY endpoint.host ORDER BY coalesce(known.asked_at, '-infinity'), endpoint.updated_at
             ) AS nth
      FROM webhook_endpoints AS endpoint
      LEFT JOIN endpoint_verifications AS known USING (partner_id)
      WHERE endpoint.disabled_at IS NULL AND endpoint.verified_url IS DISTINCT FROM endpoint.url
        AND (known.partner_id IS NULL OR NOT paced
             OR known.asked_at <= taken_at - interval '10 seconds'
                AND (known.version <> endpoint.updated_at OR known.next_at <= taken_at))
    ), chosen AS (
      SELECT due.*
      FROM due
      WHERE NOT paced OR nth + (
        SELECT count(*) FROM endpoint_verifications AS lately
        WHERE lately.asked_at > taken_at - interval '10 seconds' AND lately.host = due.host
      ) <= 5
      ORDER BY updated_at
      LIMIT rows_max
    ), noted AS (
      INSERT INTO endpoint_verifications AS known (partner_id, version, host, asked_at, asks, next_at)
      SELECT chosen.partner_id, chosen.updated_at, chosen.host, taken_at, chosen.asks,
             CASE WHEN chosen.asks < 28
               THEN taken_at + least(interval '1 hour', interval '30 seconds' * 2 ^ (chosen.asks - 1))
             END
      FROM chosen
      ON CONFLICT (partner_id) DO UPDATE SET
        version = excluded.version, host = excluded.host, asked_at = excluded.asked_at,
        asks = excluded.asks, next_at = excluded.next_at
      RETURNING known.partner_id
    )
    SELECT chosen.partner_id, chosen.url,
           CASE WHEN endpoint.second_secret_until <= taken_at THEN endpoint.secrets - 1
                ELSE endpoint.secrets END,
           chosen.updated_at::text, chosen.asks
    FROM chosen
    JOIN noted USING (partner_id)
    JOIN webhook_endpoints AS endpoint USING (partner_id);
END
$$;

-- Opens a partner's endpoint, whose server has proved that it wants webhooks, unless it was changed since
-- it was as of `of_version`: the URL that was asked must be the one that is opened.
--
-- Returns whether it is open by this call. The sender may change an endpoint by this and by
-- `disable_webhook_endpoint` alone.
CREATE FUNCTION verify_webhook_endpoint(of_partner text, of_version timestamptz, because text)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH verified AS (
    UPDATE webhook_endpoints SET verified_url = url, verified_at = now()
    WHERE partner_id = of_partner AND updated_at = of_version AND disabled_at IS NULL
      AND verified_url IS DISTINCT FROM url
    RETURNING partner_id, url
  ), act AS (
    INSERT INTO acts (act, partner_id, subject, done_by, why)
    SELECT 'verify-endpoint', partner_id, split_part(url, '?', 1), 'partner-notifier', because
    FROM verified
  )
  SELECT EXISTS (SELECT FROM verified);
END;

-- Who may do what. Operators' commands write everything.
GRANT SELECT, INSERT, UPDATE, DELETE ON partners, api_keys, webhook_endpoints, endpoint_verifications
TO triplock_partners;
GRANT SELECT, INSERT (act, partner_id, subject, done_by, why) ON acts TO triplock_partners;
GRANT SELECT ON acts TO triplock_auditor;
-- The gateway authenticates, makes an endpoint with its first secret, sets the URL, and rotates. It
-- reads no secret, and cannot call an endpoint verified.
GRANT SELECT ON partners, api_keys TO triplock_gateway;
GRANT SELECT (partner_id, url, verified_url, second_secret_until, times_set, disabled_at, updated_at),
      INSERT (partner_id, url, host, secrets),
      UPDATE (url, host, times_set, disabled_at, updated_at)
ON webhook_endpoints TO triplock_gateway;
GRANT INSERT (act, partner_id, subject, done_by, why) ON acts TO triplock_gateway;
REVOKE ALL ON FUNCTION rotate_webhook_secret FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rotate_webhook_secret TO triplock_gateway;
-- The notifier signs and sends.
GRANT USAGE ON SCHEMA partners TO triplock_notifier;
GRANT SELECT ON partners, open_webhook_endpoints TO triplock_notifier;
REVOKE ALL ON FUNCTION take_unverified_endpoints, verify_webhook_endpoint, disable_webhook_endpoint
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_unverified_endpoints, verify_webhook_endpoint, disable_webhook_endpoint
TO triplock_notifier;
-- The auditor reads everything but secrets.
GRANT SELECT ON partners TO triplock_auditor;
GRANT SELECT (partner_id, url, open_since) ON open_webhook_endpoints TO triplock_auditor;
