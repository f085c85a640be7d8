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

-- Endpoints that webhooks are sent to. Of a partner that is not here, because it has never set one or its
-- server answered 410 Gone, deliveries are parked.
CREATE VIEW open_webhook_endpoints AS
SELECT partner_id, url, secrets, second_secret_until, updated_at FROM webhook_endpoints
WHERE disabled_at IS NULL;

-- What was done to partners, their keys and their endpoints: who, when and why. It is written by
-- the statement that did it, and only added to, whoever asks.
CREATE TABLE acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act text NOT NULL CHECK (act IN (
    'add', 'rotate-key', 'revoke-key', 'seed', 'make-endpoint', 'set-endpoint', 'disable-endpoint',
    'rotate-secret', 'reseal-secrets', 'allow-card-numbers', 'refuse-card-numbers'
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
-- Returns whether it is disabled by this call. The sender may change an endpoint by this alone. A
-- rotated secret is a change as well; the next attempt asks the server again.
CREATE FUNCTION disable_webhook_endpoint(of_partner text, of_version timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH disabled AS (
    UPDATE webhook_endpoints SET disabled_at = now()
    WHERE partner_id = of_partner AND updated_at = of_version AND disabled_at IS NULL
    RETURNING partner_id
  ), act AS (
    INSERT INTO acts (act, partner_id, done_by, why)
    SELECT 'disable-endpoint', partner_id, 'partner-notifier', 'its server answered 410 Gone'
    FROM disabled
  )
  SELECT EXISTS (SELECT FROM disabled);
END;

-- Who may do what. Operators' commands write everything.
GRANT SELECT, INSERT, UPDATE, DELETE ON partners, api_keys, webhook_endpoints TO triplock_partners;
GRANT SELECT, INSERT (act, partner_id, subject, done_by, why) ON acts TO triplock_partners;
GRANT SELECT ON acts TO triplock_auditor;
-- The gateway authenticates, makes an endpoint with its first secret, sets the URL, and rotates. It
-- reads no secret.
GRANT SELECT ON partners, api_keys TO triplock_gateway;
GRANT SELECT (partner_id, url, second_secret_until, times_set, disabled_at, updated_at),
      INSERT (partner_id, url, secrets),
      UPDATE (url, times_set, disabled_at, updated_at)
ON webhook_endpoints TO triplock_gateway;
GRANT INSERT (act, partner_id, subject, done_by, why) ON acts TO triplock_gateway;
REVOKE ALL ON FUNCTION rotate_webhook_secret FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rotate_webhook_secret TO triplock_gateway;
-- The notifier signs and sends.
GRANT USAGE ON SCHEMA partners TO triplock_notifier;
GRANT SELECT ON partners, open_webhook_endpoints TO triplock_notifier;
REVOKE ALL ON FUNCTION disable_webhook_endpoint FROM PUBLIC;
GRANT EXECUTE ON FUNCTION disable_webhook_endpoint TO triplock_notifier;
-- The auditor reads everything but secrets.
GRANT SELECT ON partners TO triplock_auditor;
GRANT SELECT (partner_id, url, updated_at) ON open_webhook_endpoints TO triplock_auditor;
