-- Who may send payments, by which keys, and where their webhooks go.

CREATE TABLE partners (
  id text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- The fields whose texts may look like the numbers of payment cards, `*` for all. Only for one
  -- that is certain never to send a real one there: what it sends is kept.
  card_numbers_in text[] NOT NULL DEFAULT '{}'
    CHECK (cardinality(card_numbers_in) <= 20 AND array_position(card_numbers_in, NULL) IS NULL)
);

-- Whether each is a sealed secret, and says what with: rotating keys goes by that.
CREATE FUNCTION are_sealed(secrets jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN NOT EXISTS (
  SELECT FROM jsonb_array_elements(secrets) AS each
  WHERE (jsonb_typeof(each -> 'id') = 'string' AND jsonb_typeof(each -> 'key') = 'string'
         AND jsonb_typeof(each -> 'box') = 'string') IS NOT TRUE
);

-- A key is stored as what SHA-256 makes of it: keys are random enough that no salt is needed, and a
-- leaked table authenticates nobody.
CREATE TABLE api_keys (
  sha256 bytea PRIMARY KEY CHECK (length(sha256) = 32),
  partner_id text NOT NULL REFERENCES partners,
  -- What of the key may be shown, so that an operator can tell keys apart and revoke the right one;
  -- null where so short a key was given that nothing may.
  prefix text,
  -- What it is for; what each route needs, the gateway says beside the route.
  scope text NOT NULL DEFAULT 'full' CHECK (scope IN ('full', 'read', 'pay')),
  -- From the partner and the key of the request that made it; of one that an operator made, random.
  key_id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  -- The fingerprint of the request that made it, by which a retry is known; null of an operator's.
  made_from text,
  -- Its partner's name for it.
  name text,
  -- The version of the HTTP interface that was current when it was made, which it goes on getting;
  -- null for whatever is current.
  api_version text CHECK (api_version ~ '^\d{4}-\d{2}-\d{2}$'),
  -- The key itself, sealed, until it was used or for a day, whichever is first: whoever did not get
  -- the answer that shows it asks again. Null of an operator's.
  sealed jsonb,
  CONSTRAINT is_sealed CHECK (sealed IS NULL OR partners.are_sealed(jsonb_build_array(sealed))),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- From then on it is refused; null for one that is good until it is revoked. A key that another one
  -- made ends with that at the latest.
  expires_at timestamptz CHECK (expires_at <= created_at + interval '5 years'),
  -- When a gateway last met it, to within some minutes.
  last_used_at timestamptz,
  -- Null while the key is good.
  revoked_at timestamptz
);

CREATE INDEX keys_of_partner ON api_keys (partner_id, created_at);
CREATE INDEX keys_still_shown ON api_keys (created_at) WHERE sealed IS NOT NULL;
CREATE INDEX ended_keys ON api_keys ((least(revoked_at, expires_at)))
  WHERE least(revoked_at, expires_at) IS NOT NULL;

-- Those that are good now, and until when.
CREATE VIEW live_api_keys AS
SELECT key_id, partner_id, prefix, scope, coalesce(expires_at, 'infinity') AS ends_at FROM api_keys
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- Keys as their partner may see them: those that are good, and those that expired within a month.
CREATE VIEW shown_api_keys AS
SELECT key_id, partner_id, name, prefix, scope, api_version, created_at, expires_at, last_used_at,
       expires_at <= now() AS is_expired
FROM api_keys
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now() - interval '30 days');

-- Whether a key that is made now may expire then, or never.
CREATE FUNCTION may_expire(at timestamptz) RETURNS boolean LANGUAGE sql STABLE
RETURN at IS NULL OR at > now() AND at <= now() + interval '5 years';

-- Writes down when keys were last used, each so many seconds ago, and forgets what is no longer shown
-- of keys, also where none was used. What was written down for less than a minute earlier is left, so
-- that a key in use is written once in a minute by all gateways together.
CREATE FUNCTION note_api_key_uses(used uuid[], seconds_ago double precision[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH noted AS (
    SELECT key_id, now() - make_interval(secs => ago) AS at
    FROM unnest(used, seconds_ago) AS each (key_id, ago)
  ), locked AS MATERIALIZED (
    -- In one order, so that of two gateways one waits for the other.
    SELECT api_key.key_id, at
    FROM api_keys AS api_key JOIN noted ON noted.key_id = api_key.key_id
    WHERE last_used_at IS NULL OR last_used_at < at - interval '1 minute'
    ORDER BY api_key.key_id
    FOR NO KEY UPDATE OF api_key
  )
  UPDATE api_keys AS api_key SET last_used_at = at, sealed = NULL
  FROM locked WHERE api_key.key_id = locked.key_id;
  UPDATE api_keys SET sealed = NULL WHERE key_id IN (
    SELECT key_id FROM api_keys
    WHERE sealed IS NOT NULL AND created_at < now() - interval '1 day'
    LIMIT 1000
    FOR NO KEY UPDATE SKIP LOCKED
  );
END;

-- A partner may have several, the oldest of which is what `/v1/webhook-endpoint` shows and sets. One that
-- was deleted stays as a row without secrets: what was made for it names it.
CREATE TABLE webhook_endpoints (
  -- From the partner and the key of the request that made it; of one that PUT made, random.
  endpoint_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  partner_id text NOT NULL REFERENCES partners,
  made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The fingerprint of the request that made it, by which a retry is known; null of one that PUT made.
  made_from text,
  -- A note of the partner's.
  description text,
  -- The types of events that it wants; null for all, those of later versions too.
  event_types text[] CHECK (cardinality(event_types) > 0),
  url text NOT NULL,
  -- Since when it is this URL: what is known of its server from before is of another one.
  url_set_at timestamptz NOT NULL DEFAULT now(),
  -- The host of the URL, as connections are made to it (target-policy.ts): webhooks have a rate by it.
  host text NOT NULL CHECK (host <> ''),
  -- The URL whose server has proved last that it wants webhooks, and when. While it is another one than
  -- `url`, nothing is sent to the endpoint but the question (take_endpoint_questions).
  verified_url text,
  verified_at timestamptz,
  CONSTRAINT verified_once CHECK ((verified_url IS NULL) = (verified_at IS NULL)),
  -- Sealed, each as `id`, `key` and `box` (webhook-endpoints.ts), because every webhook is signed with
  -- them: a secret as it is, a text, cannot be stored. Newest first; a second one only while they
  -- rotate.
  secrets jsonb NOT NULL CHECK (
    jsonb_typeof(secrets) = 'array' AND jsonb_array_length(secrets) <= 2
    AND partners.are_sealed(secrets)
  ),
  -- Until when the second secret signs too: a day after the rotation that made it the second.
  second_secret_until timestamptz,
  CONSTRAINT second_secret_ends
    CHECK ((jsonb_array_length(secrets) = 2) = (second_secret_until IS NOT NULL)),
  -- The last two rotations, newest first, as they were answered: `key`, `secret` and `until`, the
  -- end of the secret before it. Of older ones no secret signs any more. A rotation takes effect
  -- once per idempotency key: otherwise each retry would make another secret, and of two good ones
  -- throw out the one in use. The secret that an endpoint was made with is one without `key`.
  rotations jsonb NOT NULL DEFAULT '[]' CHECK (
    jsonb_typeof(rotations) = 'array' AND jsonb_array_length(rotations) <= 2
    AND partners.are_sealed(jsonb_path_query_array(rotations, '$[*].secret'))
  ),
  -- When the first attempt failed since one was taken, or since it was set: null while its server takes
  -- what it is sent. Written when that changes, and not by every attempt (note_attempts).
  failing_since timestamptz,
  -- It is disabled until its partner sets it again, and until then nothing is sent there: with
  -- `failing_since`, because nothing was taken since then; without, because its server answered 410 Gone
  -- and wants no more webhooks.
  disabled_at timestamptz,
  deleted_at timestamptz,
  CONSTRAINT secrets_go_with_it CHECK ((jsonb_array_length(secrets) = 0) = (deleted_at IS NOT NULL)),
  -- Also the version of the endpoint: another one after every change of URL or secret.
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX endpoints_of_partner ON webhook_endpoints (partner_id, made_at, endpoint_id)
  WHERE deleted_at IS NULL;

-- Endpoints that were not deleted. Each gets a delivery of every event that it wants; where it is not
-- open, because its server has yet to prove that it wants webhooks or answered 410 Gone, that is parked.
CREATE VIEW live_webhook_endpoints AS
SELECT endpoint_id, partner_id, made_at, event_types, host,
       disabled_at IS NULL AND verified_url IS NOT DISTINCT FROM url AS is_open
FROM webhook_endpoints
WHERE deleted_at IS NULL;

-- Those that webhooks are sent to, and since when.
CREATE VIEW open_webhook_endpoints AS
SELECT endpoint_id, partner_id, url, url_set_at, host, secrets, second_secret_until, updated_at,
       greatest(updated_at, verified_at) AS open_since
FROM webhook_endpoints
WHERE disabled_at IS NULL AND deleted_at IS NULL AND verified_url = url;

-- Those that are gone: what is pending or parked for them is canceled.
CREATE VIEW deleted_webhook_endpoints AS
SELECT endpoint_id, partner_id, deleted_at FROM webhook_endpoints WHERE deleted_at IS NOT NULL;

-- Endpoints as their partner may see them: without secrets.
CREATE VIEW shown_webhook_endpoints AS
SELECT endpoint_id, partner_id, made_at, url, description, event_types,
       verified_url IS NOT DISTINCT FROM url AS verified,
       CASE WHEN second_secret_until > now() THEN second_secret_until END AS second_secret_until,
       updated_at, failing_since, disabled_at,
       CASE WHEN disabled_at IS NULL THEN NULL WHEN failing_since IS NULL THEN 'gone' ELSE 'failing' END
         AS disabled_because
FROM webhook_endpoints
WHERE deleted_at IS NULL;

-- Those that webhooks are sent to and that have taken none since: few or none, so that whoever records
-- a success has next to nothing to look through.
CREATE VIEW failing_webhook_endpoints AS
SELECT endpoint_id, failing_since FROM webhook_endpoints
WHERE failing_since IS NOT NULL AND disabled_at IS NULL AND deleted_at IS NULL;
CREATE INDEX endpoints_failing ON webhook_endpoints (endpoint_id)
  WHERE failing_since IS NOT NULL AND disabled_at IS NULL AND deleted_at IS NULL;

CREATE INDEX endpoints_unverified ON webhook_endpoints (endpoint_id)
  WHERE disabled_at IS NULL AND deleted_at IS NULL AND verified_url IS DISTINCT FROM url;

-- What each endpoint wanted since when: the audit knows by it which deliveries were owed. Written
-- whenever that changes, whoever changes it, and only added to.
CREATE TABLE endpoint_wishes (
  wish_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  endpoint_id uuid NOT NULL REFERENCES webhook_endpoints,
  partner_id text NOT NULL,
  -- Null for all types, none after the endpoint was deleted.
  event_types text[],
  since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER wishes_are_kept BEFORE UPDATE OR TRUNCATE ON endpoint_wishes
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
-- Those that ended long ago leave with what was made by them (webhooks.reap_settings).
CREATE TRIGGER young_wishes_are_kept BEFORE DELETE ON endpoint_wishes
  FOR EACH ROW WHEN (OLD.since > now() - interval '90 days')
  EXECUTE FUNCTION ledger.refuse_change();
CREATE FUNCTION note_wish() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
BEGIN
  INSERT INTO endpoint_wishes (endpoint_id, partner_id, event_types)
  VALUES (NEW.endpoint_id, NEW.partner_id,
          CASE WHEN NEW.deleted_at IS NULL THEN NEW.event_types ELSE '{}' END);
  RETURN NULL;
END
$$;
CREATE TRIGGER endpoint_is_made AFTER INSERT ON webhook_endpoints
  FOR EACH ROW EXECUTE FUNCTION note_wish();
CREATE TRIGGER wish_changes AFTER UPDATE ON webhook_endpoints FOR EACH ROW
  WHEN (OLD.event_types IS DISTINCT FROM NEW.event_types
        OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at)
  EXECUTE FUNCTION note_wish();
CREATE VIEW endpoint_wants AS
SELECT endpoint_id, partner_id, event_types, since,
       lead(since, 1, 'infinity') OVER (PARTITION BY endpoint_id ORDER BY wish_id) AS until
FROM endpoint_wishes;

-- What endpoints wanted before they wanted something else.
CREATE VIEW ended_wishes AS
SELECT wish_id, until FROM (
  SELECT wish_id, lead(since) OVER (PARTITION BY endpoint_id ORDER BY wish_id) AS until
  FROM endpoint_wishes
) AS wishes
WHERE until IS NOT NULL;

-- What each endpoint was asked last. It outlives the endpoint's changes and its end: however often a
-- partner sets a URL, its own or another's, an endpoint has one question sent in ten seconds.
CREATE TABLE endpoint_verifications (
  endpoint_id uuid PRIMARY KEY REFERENCES webhook_endpoints,
  partner_id text NOT NULL,
  -- The version of the endpoint that was asked; another one is asked from the beginning.
  version timestamptz NOT NULL,
  host text NOT NULL,
  asked_at timestamptz NOT NULL,
  -- How often this version was asked, and when it is asked again: null when that was the last time.
  asks integer NOT NULL,
  next_at timestamptz
);
CREATE INDEX verifications_lately ON endpoint_verifications (asked_at);

-- The last test that a partner asked for of each endpoint, and what came back. A sender takes it
-- within 15 seconds or nobody does: whoever asked waits no longer, and asks again.
CREATE TABLE endpoint_tests (
  endpoint_id uuid PRIMARY KEY REFERENCES webhook_endpoints,
  partner_id text NOT NULL,
  -- Also its webhook-id.
  test_id uuid NOT NULL,
  asked_at timestamptz NOT NULL,
  taken_at timestamptz,
  answered_at timestamptz,
  outcome text CHECK (outcome IN ('delivered', 'refused', 'unanswered', 'unsendable')),
  CONSTRAINT answered_once CHECK ((answered_at IS NULL) = (outcome IS NULL)),
  -- The server's answer, or null when there was none.
  status integer,
  took_ms integer
);
CREATE INDEX tests_to_take ON endpoint_tests (asked_at) WHERE taken_at IS NULL;

-- What partners are told of an endpoint that was disabled: at another one, whichever is open when it is
-- sent, and only while it is true. Made by the transaction that disabled it, and taken as questions are
-- (take_endpoint_questions): it is no event of a payment, so it is no delivery, and the audit has nothing
-- to compare it with.
CREATE TABLE endpoint_notices (
  -- Also the webhook-id on every attempt.
  notice_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  partner_id text NOT NULL,
  -- The endpoint that it is about, and since when that is disabled: was it enabled or deleted
  -- meanwhile, there is nothing to tell, or something newer.
  endpoint_id uuid NOT NULL REFERENCES webhook_endpoints,
  disabled_at timestamptz NOT NULL,
  -- The webhook's body, the same bytes on every attempt.
  body text NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  -- How often it was taken to be sent, when last, and when it is taken again: null when it was
  -- delivered, given up, or is no longer true.
  tries integer NOT NULL DEFAULT 0,
  tried_at timestamptz,
  next_at timestamptz DEFAULT now(),
  delivered_at timestamptz
);
CREATE INDEX notices_to_send ON endpoint_notices (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX notices_lately ON endpoint_notices (tried_at) WHERE tried_at IS NOT NULL;
CREATE INDEX notices_about ON endpoint_notices (endpoint_id);
CREATE INDEX notices_by_time ON endpoint_notices (made_at);

-- As RFC 3339 writes it, with milliseconds.
CREATE FUNCTION in_utc(moment timestamptz) RETURNS text LANGUAGE sql STABLE
RETURN to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- Tells a partner that an endpoint of its was disabled, whoever disabled it and why, if another one is
-- open, and has a sender look for it behind the commit.
CREATE FUNCTION tell_disabled() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
BEGIN
  INSERT INTO endpoint_notices (partner_id, endpoint_id, disabled_at, body)
  SELECT NEW.partner_id, NEW.endpoint_id, NEW.disabled_at, json_build_object(
    'type', 'endpoint.disabled',
    'timestamp', in_utc(NEW.disabled_at),
    'data', json_build_object(
      'object', 'webhook_endpoint',
      'id', NEW.endpoint_id,
      'disabled_at', in_utc(NEW.disabled_at),
      'disabled_reason', CASE WHEN NEW.failing_since IS NULL THEN 'gone' ELSE 'failing' END,
      'failing_since', in_utc(NEW.failing_since)
    )
  )
  WHERE EXISTS (
    SELECT FROM open_webhook_endpoints AS other
    WHERE other.partner_id = NEW.partner_id AND other.endpoint_id <> NEW.endpoint_id
  );
  IF FOUND THEN
    PERFORM pg_notify('triplock_webhooks', '');
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER partner_is_told AFTER UPDATE OF disabled_at ON webhook_endpoints FOR EACH ROW
  WHEN (OLD.disabled_at IS NULL AND NEW.disabled_at IS NOT NULL AND NEW.deleted_at IS NULL)
  EXECUTE FUNCTION tell_disabled();

-- What was done to partners, their keys and their endpoints: who, when and why. It is written by
-- the statement that did it, and only added to, whoever asks. What operators did is kept for good;
-- what partners did, and services for them, for 400 days.
CREATE TABLE acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act text NOT NULL CHECK (act IN (
    'add', 'rotate-key', 'revoke-key', 'seed', 'make-endpoint', 'set-endpoint', 'verify-endpoint',
    'disable-endpoint', 'delete-endpoint', 'rotate-secret', 'reseal-secrets', 'allow-card-numbers',
    'refuse-card-numbers', 'make-key', 'delete-key'
  )),
  partner_id text NOT NULL REFERENCES partners,
  -- Which key, by what may be shown of it; which URL, without its query; which secret, by its id;
  -- which key secrets are sealed with now.
  subject text,
  done_by text NOT NULL CHECK (done_by <> ''),
  why text,
  done_at timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER acts_are_kept BEFORE UPDATE OR TRUNCATE ON acts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER young_acts_are_kept BEFORE DELETE ON acts
  FOR EACH ROW
  WHEN (OLD.done_at > now() - interval '400 days'
        OR OLD.done_by NOT IN ('partner ' || OLD.partner_id, 'webhook sender'))
  EXECUTE FUNCTION ledger.refuse_change();
CREATE INDEX acts_of_partners ON acts (partner_id, done_at)
  WHERE done_by = 'partner ' || partner_id;
CREATE INDEX acts_that_leave ON acts (done_at)
  WHERE done_by IN ('partner ' || partner_id, 'webhook sender');

-- Refuses what a partner has done to itself more often than `acts_max` times within a day: each act
-- leaves rows that are kept, and nobody sets that much. `acts` says when it did so before.
--
-- What it throws has a code of its own; its detail is in how many seconds there is room again.
CREATE FUNCTION refuse_too_often(acts timestamptz[], acts_max integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(acts) >= acts_max THEN
    RAISE EXCEPTION 'done % times within a day', acts_max USING
      ERRCODE = 'TL429',
      DETAIL = ceil(extract(epoch FROM acts[acts_max] + interval '1 day' - now()))::text;
  END IF;
END
$$;

-- A partner sets, makes and rotates at most 200 times within a day. Deleting is not counted: an
-- endpoint or a key is deleted once. Acts of one partner are counted one after the other, by a lock that is
-- taken last.
CREATE FUNCTION bound_acts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('acts of ' || NEW.partner_id, 0));
  PERFORM refuse_too_often(
    ARRAY(
      SELECT done_at FROM acts
      WHERE partner_id = NEW.partner_id AND done_by = 'partner ' || partner_id
        AND act NOT IN ('delete-endpoint', 'delete-key') AND done_at > now() - interval '1 day'
      ORDER BY done_at DESC
      LIMIT 200
    ),
    200
  );
  RETURN NEW;
END
$$;
CREATE TRIGGER acts_are_bounded BEFORE INSERT ON acts
  FOR EACH ROW
  WHEN (NEW.done_by = 'partner ' || NEW.partner_id AND NEW.act NOT IN ('delete-endpoint', 'delete-key'))
  EXECUTE FUNCTION bound_acts();

-- Until the transaction's end nobody else makes or deletes a key of this partner as that partner.
CREATE FUNCTION lock_api_keys(of_partner text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('api keys of ' || of_partner, 0))
$$;

-- Makes a key for a partner, as one of its keys asks, by the key of the request, from which its id is
-- made.
--
-- One row. `outcome` is `made`; `replayed`, when the same request has made it before, and then the key,
-- sealed, while it is shown; `reused`, when another request did; `deleted`, when it was and is no more;
-- `too-many`, when the partner has `live_max` that are good; `wrong-expiry`; `outlives`, when it would
-- end after the key that asks, whose end `expires_at` is then; or `not-allowed`: the key that asks is not
-- good any more or not for everything. Gateways know of that a moment later, so it is looked at here: who
-- has a key that was revoked makes no other one. By a key that ends, one without an end ends with it: so
-- no line of keys outlives the one that it began with, nor is that one shown another that does.
CREATE FUNCTION make_api_key(
  of_partner text, asking uuid, new_key uuid, request text, hash bytea, shown text,
  wanted_scope text, given_name text, ends_at timestamptz, new_sealed jsonb, live_max integer,
  made_under text
) RETURNS TABLE (
  outcome text, created_at timestamptz, prefix text, api_version text, sealed jsonb,
  expires_at timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
#variable_conflict use_column
DECLARE
  known api_keys;
  asked_by text;
  asking_ends timestamptz;
BEGIN
  PERFORM lock_api_keys(of_partner);
  asked_by := key_that_manages(of_partner, asking);
  IF asked_by IS NULL THEN
    RETURN QUERY SELECT 'not-allowed', NULL::timestamptz, NULL, NULL, NULL::jsonb, NULL::timestamptz;
    RETURN;
  END IF;
  SELECT expires_at INTO asking_ends FROM api_keys WHERE key_id = asking;
  SELECT * INTO known FROM api_keys WHERE key_id = new_key;
  IF FOUND THEN
    RETURN QUERY SELECT
      CASE WHEN known.made_from IS DISTINCT FROM request THEN 'reused'
           WHEN known.revoked_at IS NOT NULL THEN 'deleted' ELSE 'replayed' END,
      known.created_at, known.prefix, known.api_version,
      CASE WHEN known.made_from = request AND known.created_at > now() - interval '1 day'
                AND (asking_ends IS NULL OR known.expires_at <= asking_ends)
           THEN known.sealed END,
      known.expires_at;
    RETURN;
  END IF;
  IF NOT may_expire(ends_at) THEN
    RETURN QUERY SELECT 'wrong-expiry', NULL::timestamptz, NULL, NULL, NULL::jsonb, NULL::timestamptz;
    RETURN;
  END IF;
  IF ends_at > asking_ends THEN
    RETURN QUERY SELECT 'outlives', NULL::timestamptz, NULL, NULL, NULL::jsonb, asking_ends;
    RETURN;
  END IF;
  IF (SELECT count(*) FROM live_api_keys WHERE partner_id = of_partner) >= live_max THEN
    RETURN QUERY SELECT 'too-many', NULL::timestamptz, NULL, NULL, NULL::jsonb, NULL::timestamptz;
    RETURN;
  END IF;
  INSERT INTO acts (act, partner_id, subject, done_by, why)
  VALUES ('make-key', of_partner, shown, 'partner ' || of_partner,
          'POST /v1/api-keys by ' || asked_by);
  RETURN QUERY
    INSERT INTO api_keys AS made
      (sha256, partner_id, prefix, scope, key_id, made_from, name, api_version, sealed, expires_at)
    VALUES (hash, of_partner, shown, wanted_scope, new_key, request, given_name, made_under,
            new_sealed, coalesce(ends_at, asking_ends))
    RETURNING 'made', made.created_at, made.prefix, made.api_version, made.sealed, made.expires_at;
END
$$;

-- What may be shown of the key that asks, if it is good now and for everything, else null; until the
-- transaction's end nobody revokes it.
CREATE FUNCTION key_that_manages(of_partner text, asking uuid) RETURNS text
LANGUAGE plpgsql SET search_path = partners, pg_temp AS $$
BEGIN
  RETURN (
    SELECT coalesce(prefix, key_id::text) FROM api_keys
    WHERE partner_id = of_partner AND key_id = asking AND scope = 'full'
      AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
    FOR SHARE
  );
END
$$;

-- Ends a key of a partner, as one of its keys asks, perhaps that one itself.
--
-- Returns `deleted`; `no-such-key`, also when it was deleted before; `last-full`, when the partner would
-- have no key for everything left that is good for another hour, or for as long as this one; or
-- `not-allowed`, as `make_api_key` does. Of two keys that delete each other at once the second is not
-- good any more.
CREATE FUNCTION delete_api_key(of_partner text, asking uuid, doomed uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
DECLARE
  asked_by text;
  shown text;
BEGIN
  PERFORM lock_api_keys(of_partner);
  -- In the order of whoever writes down uses of both.
  PERFORM FROM api_keys
  WHERE partner_id = of_partner AND key_id IN (asking, doomed)
  ORDER BY key_id
  FOR UPDATE;
  asked_by := key_that_manages(of_partner, asking);
  IF asked_by IS NULL THEN
    RETURN 'not-allowed';
  END IF;
  -- One that ends in a moment is no successor of one that goes on.
  IF EXISTS (
    SELECT FROM live_api_keys AS going
    WHERE partner_id = of_partner AND key_id = doomed AND scope = 'full' AND NOT EXISTS (
      SELECT FROM live_api_keys AS other
      WHERE partner_id = of_partner AND key_id <> doomed AND scope = 'full'
        AND other.ends_at >= least(going.ends_at, now() + interval '1 hour')
    )
  ) THEN
    RETURN 'last-full';
  END IF;
  UPDATE api_keys SET revoked_at = now(), sealed = NULL
  WHERE partner_id = of_partner AND key_id = doomed AND revoked_at IS NULL
  RETURNING coalesce(prefix, key_id::text) INTO shown;
  IF NOT FOUND THEN
    RETURN 'no-such-key';
  END IF;
  INSERT INTO acts (act, partner_id, subject, done_by, why)
  VALUES ('delete-key', of_partner, shown, 'partner ' || of_partner,
          'DELETE /v1/api-keys by ' || asked_by);
  RETURN 'deleted';
END
$$;

-- The oldest endpoint of a partner, which is there before and after any other; null when it has none.
CREATE FUNCTION first_webhook_endpoint(of_partner text) RETURNS uuid
LANGUAGE sql STABLE SET search_path = partners, pg_temp
RETURN (
  SELECT endpoint_id FROM live_webhook_endpoints WHERE partner_id = of_partner
  ORDER BY made_at, endpoint_id LIMIT 1
);

-- Until the transaction's end nobody else makes an endpoint of this partner.
CREATE FUNCTION lock_webhook_endpoints(of_partner text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('webhook endpoints of ' || of_partner, 0))
$$;

-- Makes an endpoint by a partner's key, from which its id is made.
--
-- One row. `outcome` is `made`; `replayed`, when the same request has made it before, and then its
-- first secret, while that is one of the last two; `reused`, when another request did; `deleted`, when
-- it was and is no more; `too-many`, when the partner has `rows_max`. What makes endpoints of one
-- partner goes one after the other: nobody else's is counted wrongly.
CREATE FUNCTION make_webhook_endpoint(
  of_partner text, of_endpoint uuid, request text, to_url text, to_host text,
  wanted text[], note text, new_secret jsonb, rows_max integer
) RETURNS TABLE (outcome text, made_at timestamptz, secret jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
#variable_conflict use_column
DECLARE
  known webhook_endpoints;
  moment timestamptz;
BEGIN
  PERFORM lock_webhook_endpoints(of_partner);
  SELECT * INTO known FROM webhook_endpoints WHERE endpoint_id = of_endpoint;
  IF FOUND THEN
    RETURN QUERY SELECT
      CASE WHEN known.made_from IS DISTINCT FROM request THEN 'reused'
           WHEN known.deleted_at IS NOT NULL THEN 'deleted' ELSE 'replayed' END,
      known.made_at,
      (SELECT each -> 'secret' FROM jsonb_array_elements(known.rotations) AS each
       WHERE known.made_from = request AND NOT each ? 'key');
    RETURN;
  END IF;
  IF (SELECT count(*) FROM live_webhook_endpoints WHERE partner_id = of_partner) >= rows_max THEN
    RETURN QUERY SELECT 'too-many', NULL::timestamptz, NULL::jsonb;
    RETURN;
  END IF;
  INSERT INTO acts (act, partner_id, subject, done_by, why)
  VALUES ('make-endpoint', of_partner, split_part(to_url, '?', 1), 'partner ' || of_partner,
          'POST /v1/webhook-endpoints');
  PERFORM pg_notify('triplock_webhooks', '');
  moment := clock_timestamp();
  RETURN QUERY
    INSERT INTO webhook_endpoints AS made
      (endpoint_id, partner_id, made_at, updated_at, made_from, description, event_types, url, host,
       secrets, rotations)
    VALUES (of_endpoint, of_partner, moment, moment, request, note, wanted, to_url, to_host,
            jsonb_build_array(new_secret),
            jsonb_build_array(jsonb_build_object('secret', new_secret, 'until', now())))
    RETURNING 'made', made.made_at, new_secret;
END
$$;

-- Sets where the webhooks of a partner's oldest endpoint go and enables it, or makes one when there is
-- none: its id is `new_endpoint` then, with this secret. Gives the endpoint as it is now.
CREATE FUNCTION set_first_webhook_endpoint(
  of_partner text, new_endpoint uuid, to_url text, to_host text, new_secret jsonb
) RETURNS SETOF shown_webhook_endpoints
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
#variable_conflict use_column
DECLARE
  known uuid;
BEGIN
  PERFORM lock_webhook_endpoints(of_partner);
  known := first_webhook_endpoint(of_partner);
  IF known IS NOT NULL THEN
    RETURN QUERY SELECT * FROM change_webhook_endpoint(
      of_partner, known, jsonb_build_object('url', to_url, 'host', to_host), 'PUT /v1/webhook-endpoint'
    );
    RETURN;
  END IF;
  INSERT INTO webhook_endpoints (endpoint_id, partner_id, url, host, secrets)
  VALUES (new_endpoint, of_partner, to_url, to_host, jsonb_build_array(new_secret));
  INSERT INTO acts (act, partner_id, subject, done_by, why)
  VALUES ('make-endpoint', of_partner, split_part(to_url, '?', 1), 'partner ' || of_partner,
          'PUT /v1/webhook-endpoint');
  PERFORM pg_notify('triplock_webhooks', '');
  RETURN QUERY SELECT * FROM shown_webhook_endpoints WHERE endpoint_id = new_endpoint;
END
$$;

-- Changes what is named in `changes` of a partner's endpoint: `url` with its `host`, which enables it
-- too, `event_types` and `description`, null for all types and for none. Gives the endpoint as it is
-- now; nothing when the partner has no such one. What is as it was before is no act, and is told to
-- senders all the same.
CREATE FUNCTION change_webhook_endpoint(
  of_partner text, of_endpoint uuid, changes jsonb, because text
) RETURNS SETOF shown_webhook_endpoints
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
#variable_conflict use_column
DECLARE
  known webhook_endpoints;
BEGIN
  SELECT * INTO known FROM webhook_endpoints
  WHERE partner_id = of_partner AND endpoint_id = of_endpoint AND deleted_at IS NULL
  FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  UPDATE webhook_endpoints SET
    url = coalesce(changes ->> 'url', known.url),
    url_set_at = CASE WHEN changes ->> 'url' <> known.url THEN now() ELSE known.url_set_at END,
    host = coalesce(changes ->> 'host', known.host),
    failing_since = CASE WHEN changes ? 'url' THEN NULL ELSE known.failing_since END,
    disabled_at = CASE WHEN changes ? 'url' THEN NULL ELSE known.disabled_at END,
    updated_at = CASE WHEN changes ? 'url' THEN now() ELSE known.updated_at END,
    description = CASE WHEN changes ? 'description' THEN changes ->> 'description'
                       ELSE known.description END,
    event_types = CASE
      WHEN NOT changes ? 'event_types' THEN known.event_types
      WHEN jsonb_typeof(changes -> 'event_types') = 'array'
      THEN ARRAY(SELECT jsonb_array_elements_text(changes -> 'event_types'))
    END
  WHERE endpoint_id = of_endpoint;
  INSERT INTO acts (act, partner_id, subject, done_by, why)
  SELECT 'set-endpoint', of_partner, split_part(url, '?', 1), 'partner ' || of_partner, because
  FROM webhook_endpoints
  WHERE endpoint_id = of_endpoint AND (
    (known.url, known.event_types, known.description) IS DISTINCT FROM (url, event_types, description)
    OR known.disabled_at IS DISTINCT FROM disabled_at
  );
  PERFORM pg_notify('triplock_webhooks', '');
  RETURN QUERY SELECT * FROM shown_webhook_endpoints WHERE endpoint_id = of_endpoint;
END
$$;

-- Deletes a partner's endpoint and its secrets; what waits for it is canceled by a sender, and an
-- attempt that is under way comes to its end. Returns whether it was there.
CREATE FUNCTION delete_webhook_endpoint(of_partner text, of_endpoint uuid) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH deleted AS (
    UPDATE webhook_endpoints SET
      deleted_at = now(), url = split_part(url, '?', 1), secrets = '[]', rotations = '[]',
      second_secret_until = NULL
    WHERE partner_id = of_partner AND endpoint_id = of_endpoint AND deleted_at IS NULL
    RETURNING partner_id, url
  ), act AS (
    INSERT INTO acts (act, partner_id, subject, done_by, why)
    SELECT 'delete-endpoint', partner_id, url, 'partner ' || partner_id,
           'DELETE /v1/webhook-endpoints'
    FROM deleted, pg_notify('triplock_webhooks', '')
  )
  SELECT EXISTS (SELECT FROM deleted);
END;

-- Gives a partner's endpoint a new secret, unless it was rotated under this key; the oldest one when
-- none is named. Not `even_early`, it leaves alone what was rotated less than a day ago: the secret that
-- would end is the one that the partner's server may still know alone.
--
-- A row: the rotation of that key; `new_secret` is its secret when it was this call that made it.
-- No row: the partner has no such endpoint, or it was too early. Two at once go one after the other by
-- the row's lock, and everything is decided by the row as it is then.
CREATE FUNCTION rotate_secret_as(
  of_partner text, of_endpoint uuid, by_key text, new_secret jsonb, by_whom text, because text,
  even_early boolean
) RETURNS TABLE (secret jsonb, previous_secret_until timestamptz)
LANGUAGE sql SET search_path = partners, pg_temp
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
    WHERE partner_id = of_partner AND deleted_at IS NULL
      AND endpoint_id = coalesce(of_endpoint, first_webhook_endpoint(of_partner))
      AND (even_early OR second_secret_until IS NULL OR second_secret_until <= now()
           OR rotations @> jsonb_build_array(jsonb_build_object('key', by_key)))
    RETURNING
      (SELECT each -> 'secret' FROM jsonb_array_elements(known.rotations) AS each
       WHERE each ->> 'key' = by_key) AS secret,
      (SELECT (each ->> 'until')::timestamptz FROM jsonb_array_elements(known.rotations) AS each
       WHERE each ->> 'key' = by_key) AS until
  ), act AS (
    INSERT INTO acts (act, partner_id, subject, done_by, why)
    SELECT 'rotate-secret', of_partner, rotated.secret ->> 'id', by_whom, because
    FROM rotated WHERE rotated.secret = new_secret
  )
  SELECT rotated.secret, rotated.until FROM rotated;
END;

-- The same by the partner itself. The gateway may read secrets by this and by `make_webhook_endpoint`
-- alone, and only those that it made under the key that it shows.
CREATE FUNCTION rotate_webhook_secret(
  of_partner text, of_endpoint uuid, by_key text, new_secret jsonb
) RETURNS TABLE (secret jsonb, previous_secret_until timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  SELECT rotated.secret, rotated.previous_secret_until
  FROM rotate_secret_as(
    of_partner, of_endpoint, by_key, new_secret, 'partner ' || of_partner,
    'POST /v1/webhook-endpoint' || CASE WHEN of_endpoint IS NULL THEN '' ELSE 's' END || '/secrets',
    true
  ) AS rotated;
END;

-- Asks for a test of a partner's endpoint, of which there is one in ten seconds: it goes to a server
-- that has proved that it wants webhooks, and to no other. Whether it has is decided once more when the
-- test is taken (take_endpoint_questions), so a URL that is changed in between is sent none.
--
-- `asked`; `too-soon`; `not-open`; `no-endpoint`. Of two at once one is asked for.
CREATE FUNCTION ask_webhook_test(of_partner text, of_endpoint uuid, test uuid) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH known AS (
    SELECT is_open FROM live_webhook_endpoints
    WHERE partner_id = of_partner AND endpoint_id = of_endpoint
  ), asked AS (
    INSERT INTO endpoint_tests AS last (endpoint_id, partner_id, test_id, asked_at)
    SELECT of_endpoint, of_partner, test, now() FROM known WHERE is_open
    ON CONFLICT (endpoint_id) DO UPDATE SET
      test_id = excluded.test_id, asked_at = excluded.asked_at, taken_at = NULL, answered_at = NULL,
      outcome = NULL, status = NULL, took_ms = NULL
    WHERE last.asked_at <= now() - interval '10 seconds'
    RETURNING pg_notify('triplock_webhooks', '')
  )
  SELECT CASE
    WHEN NOT EXISTS (SELECT FROM known) THEN 'no-endpoint'
    WHEN EXISTS (SELECT FROM asked) THEN 'asked'
    WHEN (SELECT is_open FROM known) THEN 'too-soon'
    ELSE 'not-open'
  END;
END;

-- Records what came back of a test, for whoever waits for it; of one that was asked for again since,
-- nothing. An endpoint that took it no longer fails.
CREATE FUNCTION answer_webhook_test(
  of_test uuid, of_endpoint uuid, came text, with_status integer, within_ms integer
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  UPDATE endpoint_tests SET
    answered_at = now(), outcome = came, status = with_status, took_ms = within_ms
  WHERE endpoint_id = of_endpoint AND test_id = of_test AND answered_at IS NULL;
  UPDATE webhook_endpoints SET failing_since = NULL
  WHERE endpoint_id = of_endpoint AND came = 'delivered'
    AND failing_since IS NOT NULL AND disabled_at IS NULL;
END;

-- Disables an endpoint, unless it was changed since it was as of `of_version`: a 410 Gone that was long
-- on its way must not disable an endpoint that its partner has set again since, to the same URL too.
--
-- Returns whether it is disabled by this call. A rotated secret is a change as well; the next attempt
-- asks the server again. What the server had proved before no longer counts: set again, to the same
-- URL too, it is asked whether it wants webhooks after all.
CREATE FUNCTION disable_webhook_endpoint(of_endpoint uuid, of_version timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH disabled AS (
    UPDATE webhook_endpoints SET
      disabled_at = now(), failing_since = NULL, verified_url = NULL, verified_at = NULL
    WHERE endpoint_id = of_endpoint AND updated_at = of_version
      AND disabled_at IS NULL AND deleted_at IS NULL
    RETURNING partner_id
  ), act AS (
    INSERT INTO acts (act, partner_id, done_by, why)
    SELECT 'disable-endpoint', partner_id, 'webhook sender', 'its server answered 410 Gone'
    FROM disabled
  )
  SELECT EXISTS (SELECT FROM disabled);
END;

-- Notes of endpoints that one or more attempts came to an end, whether any was taken, and whether one
-- that failed was at something that had failed there for long: one that was taken ends `failing_since`,
-- the first that failed begins it, and one of the last kind that fails `disable_after` later or more
-- disables the endpoint, to which nothing was taken in all that time. Without the last, an endpoint that
-- was sent nothing in that time would be disabled by the first failure that follows.
--
-- Gives the endpoints that this call disabled. Calls for one endpoint, and its partner's changes, go one
-- after the other by the row's lock, always taken in one order, and each decides by the row as the one
-- before it left it: what was taken a moment before keeps the endpoint open. One that is not open is
-- left as it is. What the server had proved no longer counts, as after a 410 Gone: after so long its
-- name may be somebody else's.
CREATE FUNCTION note_attempts(
  of_endpoints uuid[], have_taken boolean[], have_insisted boolean[], disable_after interval
) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
BEGIN
  PERFORM FROM webhook_endpoints WHERE endpoint_id = ANY (of_endpoints) ORDER BY endpoint_id FOR UPDATE;
  RETURN QUERY
    WITH open AS (
      SELECT endpoint_id, has_taken,
             NOT has_taken AND has_insisted AND failing_since <= now() - disable_after AS ends
      FROM unnest(of_endpoints, have_taken, have_insisted) AS t (endpoint_id, has_taken, has_insisted)
      JOIN webhook_endpoints USING (endpoint_id)
      WHERE disabled_at IS NULL AND deleted_at IS NULL AND verified_url = url
    ), noted AS (
      UPDATE webhook_endpoints AS endpoint SET
        failing_since = CASE WHEN NOT has_taken THEN coalesce(failing_since, now()) END,
        disabled_at = CASE WHEN ends THEN now() END,
        verified_url = CASE WHEN NOT coalesce(ends, false) THEN verified_url END,
        verified_at = CASE WHEN NOT coalesce(ends, false) THEN verified_at END
      FROM open
      WHERE endpoint.endpoint_id = open.endpoint_id
      RETURNING endpoint.endpoint_id, partner_id, url, failing_since, disabled_at
    ), act AS (
      INSERT INTO acts (act, partner_id, subject, done_by, why)
      SELECT 'disable-endpoint', partner_id, split_part(url, '?', 1), 'webhook sender',
             'nothing was taken there since ' || in_utc(failing_since)
      FROM noted
      WHERE disabled_at IS NOT NULL
    )
    SELECT endpoint_id FROM noted WHERE disabled_at IS NOT NULL;
END
$$;

-- Notes that a notice was delivered, or that nobody shall be sent it.
CREATE FUNCTION answer_endpoint_notice(of_notice uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  UPDATE endpoint_notices SET delivered_at = now(), next_at = NULL
  WHERE notice_id = of_notice AND delivered_at IS NULL;
END;

-- Takes what endpoints are to be asked: the tests that their partners asked for, what they are to be told
-- of others that were disabled and still are, and of those that were set, and have not proved that they
-- want webhooks, whether they do. Each of these is asked, or told, at once, and then after pauses that
-- grow from 30 s to an hour, 28 times, which is about a day; a change of the endpoint, such as the same
-- URL once more, begins anew.
--
-- A row: the caller's to ask, within ten seconds; `test_id` and `notice` are null where the question is
-- whether, and `asks` counts these from 1; of a notice `test_id` is its webhook-id, and `notice` its body.
-- A caller that dies leaves it to the next pause, and a test to whoever asks for one again. An endpoint
-- has one question in ten seconds, and a partner five, and a host, which many partners may name, five:
-- nobody has been asked yet whether it is the partner's. A partner is told five things in ten seconds,
-- so that its servers, which may not answer, keep no more callers than that from others. Takers go one
-- after the other, so that each counts what the others took. Without `paced`, where nobody is asked,
-- all of them are taken at once.
CREATE FUNCTION take_endpoint_questions(rows_max integer, paced boolean)
RETURNS TABLE (
  endpoint_id uuid, partner_id text, url text, secrets jsonb, version text, asks integer, test_id uuid,
  notice text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
#variable_conflict use_column
DECLARE
  taken_at timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('take_endpoint_questions', 0));
  -- Not now(), which was before the wait: the last taker's would be in the future.
  taken_at := clock_timestamp();
  RETURN QUERY
    WITH due AS (
      SELECT endpoint.endpoint_id, endpoint.partner_id, endpoint.url, endpoint.host, endpoint.updated_at,
             CASE WHEN known.version = endpoint.updated_at THEN known.asks ELSE 0 END + 1 AS asks,
             row_number() OVER (
               PARTITION BY endpoint.host ORDER BY coalesce(known.asked_at, '-infinity'), endpoint.updated_at
             ) AS nth_of_host,
             row_number() OVER (
               PARTITION BY endpoint.partner_id
               ORDER BY coalesce(known.asked_at, '-infinity'), endpoint.updated_at
             ) AS nth_of_partner
      FROM webhook_endpoints AS endpoint
      LEFT JOIN endpoint_verifications AS known USING (endpoint_id)
      WHERE endpoint.disabled_at IS NULL AND endpoint.deleted_at IS NULL
        AND endpoint.verified_url IS DISTINCT FROM endpoint.url
        AND (known.endpoint_id IS NULL OR NOT paced
             OR known.asked_at <= taken_at - interval '10 seconds'
                AND (known.version <> endpoint.updated_at OR known.next_at <= taken_at))
    ), chosen AS (
      SELECT due.*
      FROM due
      WHERE NOT paced OR nth_of_host + (
        SELECT count(*) FROM endpoint_verifications AS lately
        WHERE lately.asked_at > taken_at - interval '10 seconds' AND lately.host = due.host
      ) <= 5 AND nth_of_partner + (
        SELECT count(*) FROM endpoint_verifications AS lately
        WHERE lately.asked_at > taken_at - interval '10 seconds' AND lately.partner_id = due.partner_id
      ) <= 5
      ORDER BY updated_at
      LIMIT rows_max
    ), noted AS (
      INSERT INTO endpoint_verifications AS known
        (endpoint_id, partner_id, version, host, asked_at, asks, next_at)
      SELECT chosen.endpoint_id, chosen.partner_id, chosen.updated_at, chosen.host, taken_at, chosen.asks,
             CASE WHEN chosen.asks < 28
               THEN taken_at + least(interval '1 hour', interval '30 seconds' * 2 ^ (chosen.asks - 1))
             END
      FROM chosen
      ON CONFLICT (endpoint_id) DO UPDATE SET
        version = excluded.version, host = excluded.host, asked_at = excluded.asked_at,
        asks = excluded.asks, next_at = excluded.next_at
      RETURNING known.endpoint_id, known.asks, NULL::uuid AS test_id, NULL AS notice
    ), ended AS (
      UPDATE endpoint_notices AS notice SET next_at = NULL
      WHERE notice.next_at <= taken_at AND NOT EXISTS (
        SELECT FROM webhook_endpoints AS about
        WHERE about.endpoint_id = notice.endpoint_id AND about.deleted_at IS NULL
          AND about.disabled_at = notice.disabled_at
      )
    ), told AS (
      UPDATE endpoint_notices AS due SET
        tries = tries + 1,
        tried_at = taken_at,
        next_at = CASE WHEN tries < 27
          THEN taken_at + least(interval '1 hour', interval '30 seconds' * 2 ^ tries)
        END
      FROM (
        SELECT each.notice_id, each.endpoint_id
        FROM (
          SELECT notice.notice_id, notice.partner_id, notice.next_at, other.endpoint_id,
                 row_number() OVER (
                   PARTITION BY notice.partner_id ORDER BY notice.next_at, notice.notice_id
                 ) AS nth_of_partner
          FROM endpoint_notices AS notice
          JOIN webhook_endpoints AS about
            ON about.endpoint_id = notice.endpoint_id AND about.deleted_at IS NULL
              AND about.disabled_at = notice.disabled_at
          CROSS JOIN LATERAL (
            -- Where it is most likely to be taken: its oldest endpoint that does not fail itself.
            SELECT open.endpoint_id
            FROM open_webhook_endpoints AS open
            JOIN webhook_endpoints AS whole ON whole.endpoint_id = open.endpoint_id
            WHERE open.partner_id = notice.partner_id AND open.endpoint_id <> notice.endpoint_id
            ORDER BY whole.failing_since IS NOT NULL, whole.made_at, whole.endpoint_id
            LIMIT 1
          ) AS other
          WHERE notice.next_at <= taken_at
        ) AS each
        WHERE nth_of_partner + (
          SELECT count(*) FROM endpoint_notices AS lately
          WHERE lately.tried_at > taken_at - interval '10 seconds'
            AND lately.partner_id = each.partner_id
        ) <= 5
        ORDER BY next_at
        LIMIT rows_max
      ) AS chosen (notice_id, endpoint_id)
      -- Looked at again where the row was changed a moment ago: its answer came after all.
      WHERE due.notice_id = chosen.notice_id AND due.delivered_at IS NULL
      RETURNING chosen.endpoint_id, due.tries, due.notice_id, due.body
    ), tested AS (
      UPDATE endpoint_tests AS test SET taken_at = clock_timestamp()
      FROM open_webhook_endpoints AS open
      WHERE test.taken_at IS NULL AND test.asked_at > now() - interval '15 seconds'
        AND open.endpoint_id = test.endpoint_id
      RETURNING test.endpoint_id, 1, test.test_id, NULL
    )
    SELECT endpoint.endpoint_id, endpoint.partner_id, endpoint.url,
           CASE WHEN endpoint.second_secret_until <= now() THEN endpoint.secrets - 1
                ELSE endpoint.secrets END,
           endpoint.updated_at::text, taken.asks, taken.test_id, taken.notice
    FROM (
      SELECT * FROM noted UNION ALL SELECT * FROM told UNION ALL SELECT * FROM tested
    ) AS taken
    JOIN webhook_endpoints AS endpoint USING (endpoint_id)
    WHERE endpoint.deleted_at IS NULL;
END
$$;

-- Opens an endpoint, whose server has proved that it wants webhooks, unless it was changed since it was
-- as of `of_version`: the URL that was asked must be the one that is opened.
--
-- Returns whether it is open by this call. The sender may change an endpoint by this, by
-- `disable_webhook_endpoint`, `note_attempts` and `answer_webhook_test` alone.
CREATE FUNCTION verify_webhook_endpoint(of_endpoint uuid, of_version timestamptz, because text)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH verified AS (
    UPDATE webhook_endpoints SET verified_url = url, verified_at = now()
    WHERE endpoint_id = of_endpoint AND updated_at = of_version
      AND disabled_at IS NULL AND deleted_at IS NULL AND verified_url IS DISTINCT FROM url
    RETURNING partner_id, url
  ), act AS (
    INSERT INTO acts (act, partner_id, subject, done_by, why)
    SELECT 'verify-endpoint', partner_id, split_part(url, '?', 1), 'webhook sender', because
    FROM verified
  )
  SELECT EXISTS (SELECT FROM verified);
END;

-- What each partner is owed: its payments and refunds of a day by currency, as whoever adds them up
-- has them, by the events that it received. Each is a line of the day in which it was settled, UTC; what
-- comes after that day was closed is a line of the first one that is open, and keeps its own time. So a
-- batch of a day that is closed never changes.
CREATE TABLE settlement_calendar (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- The last day that is closed, and with it all before; null before the first.
  closed_through date,
  -- All that was told before it is in its batch.
  complete_through timestamptz
);
INSERT INTO settlement_calendar DEFAULT VALUES;

CREATE TABLE settlement_batches (
  partner_id text NOT NULL,
  day date NOT NULL,
  currency text NOT NULL,
  -- In minor units.
  gross bigint NOT NULL CHECK (gross >= 0),
  refunds bigint NOT NULL CHECK (refunds >= 0),
  -- Below zero on a day on which more was refunded than paid.
  net bigint GENERATED ALWAYS AS (gross - refunds) STORED,
  payments bigint NOT NULL CHECK (payments >= 0),
  refund_count bigint NOT NULL CHECK (refund_count >= 0),
  PRIMARY KEY (partner_id, day, currency)
);

-- What each batch is the sum of.
CREATE TABLE settlement_lines (
  partner_id text NOT NULL,
  day date NOT NULL,
  line_id bigint GENERATED ALWAYS AS IDENTITY,
  currency text NOT NULL,
  -- Of one currency as of all (there are few), a page is read from its beginning.
  PRIMARY KEY (partner_id, currency, day, line_id),
  txn_id uuid NOT NULL,
  kind text NOT NULL,
  -- In minor units; what was given back is below zero.
  amount bigint NOT NULL CHECK (amount <> 0),
  settled_at timestamptz NOT NULL,
  -- No line is in a day before its own.
  CHECK (day >= (settled_at AT TIME ZONE 'UTC')::date)
);
-- For the audit's windows of time.
CREATE INDEX lines_by_time ON settlement_lines USING brin (settled_at) WITH (autosummarize = on);

-- The same by kind and the day in which it was settled: what a statement says, in a few rows.
CREATE TABLE settlement_sums (
  partner_id text NOT NULL,
  day date NOT NULL,
  currency text NOT NULL,
  kind text NOT NULL,
  settled_on date NOT NULL,
  count bigint NOT NULL,
  amount bigint NOT NULL,
  PRIMARY KEY (partner_id, day, currency, kind, settled_on)
);

-- Those who add and whoever closes a day: many of the ones, or one of the others. Locks by number are no
-- role's of their own.
CREATE FUNCTION lock_settlement_days(to_close boolean) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN to_close THEN pg_advisory_xact_lock(hashtextextended('settlement days', 0))
    ELSE pg_advisory_xact_lock_shared(hashtextextended('settlement days', 0))
  END
$$;

-- Adds transactions that succeeded, each to the batch of its partner, day and currency; runs in the
-- transaction of their events' inbox rows, until the end of which no day is closed.
--
-- Batches are taken in one order, so that two that add do not wait in a circle.
CREATE FUNCTION add_settlements(
  partners text[], txns uuid[], kinds text[], currencies text[], amounts bigint[], times timestamptz[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
BEGIN
  PERFORM lock_settlement_days(false);
  -- A statement of its own: it sees what was closed before the lock.
  WITH lines AS (
    INSERT INTO settlement_lines (partner_id, day, txn_id, kind, currency, amount, settled_at)
    SELECT partner_id, greatest((settled_at AT TIME ZONE 'UTC')::date, closed_through + 1),
           txn_id, kind, currency, amount, settled_at
    FROM unnest(partners, txns, kinds, currencies, amounts, times) WITH ORDINALITY
         AS t (partner_id, txn_id, kind, currency, amount, settled_at, nth)
    CROSS JOIN settlement_calendar
    ORDER BY nth
    RETURNING partner_id, day, currency, kind, amount, (settled_at AT TIME ZONE 'UTC')::date AS settled_on
  ), sums AS (
    INSERT INTO settlement_sums AS known (partner_id, day, currency, kind, settled_on, count, amount)
    SELECT partner_id, day, currency, kind, settled_on, count(*), sum(amount)
    FROM lines
    GROUP BY partner_id, day, currency, kind, settled_on
    ORDER BY partner_id, day, currency, kind, settled_on
    ON CONFLICT (partner_id, day, currency, kind, settled_on) DO UPDATE SET
      count = known.count + excluded.count,
      amount = known.amount + excluded.amount
  )
  INSERT INTO settlement_batches AS known
    (partner_id, day, currency, gross, refunds, payments, refund_count)
  SELECT partner_id, day, currency,
         coalesce(sum(amount) FILTER (WHERE amount > 0), 0),
         coalesce(-sum(amount) FILTER (WHERE amount < 0), 0),
         count(*) FILTER (WHERE amount > 0),
         count(*) FILTER (WHERE amount < 0)
  FROM lines
  GROUP BY partner_id, day, currency
  ORDER BY partner_id, day, currency
  ON CONFLICT (partner_id, day, currency) DO UPDATE SET
    gross = known.gross + excluded.gross,
    refunds = known.refunds + excluded.refunds,
    payments = known.payments + excluded.payments,
    refund_count = known.refund_count + excluded.refund_count;
END
$$;

-- Notes until when all that was told is in its batch, and closes the days that were over by `grace` then.
--
-- Gives the last day that is closed. Neither of the two goes back, whoever calls and in whichever order;
-- where nobody knows, `complete` is null and nothing changes.
CREATE FUNCTION close_settlement_days(complete timestamptz, grace interval) RETURNS date
LANGUAGE plpgsql SECURITY DEFINER SET search_path = partners, pg_temp AS $$
DECLARE
  closable date := ((complete - grace) AT TIME ZONE 'UTC')::date - 1;
BEGIN
  IF complete > now() OR grace < interval '1 minute' THEN
    RAISE EXCEPTION 'nothing is complete through %, and no day is closed % after its end', complete, grace;
  END IF;
  UPDATE settlement_calendar SET complete_through = complete
  WHERE complete > coalesce(complete_through, '-infinity');
  IF closable > (SELECT coalesce(closed_through, '-infinity') FROM settlement_calendar) THEN
    PERFORM lock_settlement_days(true);
    UPDATE settlement_calendar SET closed_through = closable
    WHERE closable > coalesce(closed_through, '-infinity');
  END IF;
  RETURN (SELECT closed_through FROM settlement_calendar);
END
$$;
REVOKE EXECUTE ON FUNCTION lock_settlement_days, add_settlements, close_settlement_days FROM PUBLIC;

-- What was added is not taken out: this holds for the owner of the table too.
CREATE FUNCTION refuse_settlement_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: batches only grow', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;
CREATE TRIGGER settlements_only_grow BEFORE UPDATE ON settlement_batches
  FOR EACH ROW WHEN (
    (NEW.partner_id, NEW.day, NEW.currency) IS DISTINCT FROM (OLD.partner_id, OLD.day, OLD.currency)
    OR NEW.gross < OLD.gross OR NEW.refunds < OLD.refunds
    OR NEW.payments < OLD.payments OR NEW.refund_count < OLD.refund_count
  ) EXECUTE FUNCTION refuse_settlement_change();
CREATE TRIGGER settlements_are_kept BEFORE DELETE OR TRUNCATE ON settlement_batches
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_settlement_change();
CREATE TRIGGER lines_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON settlement_lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_settlement_change();

CREATE FUNCTION refuse_in_closed_day() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.day <= (SELECT closed_through FROM partners.settlement_calendar) THEN
    RAISE EXCEPTION '% of %.% is refused: % is closed', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, NEW.day;
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER closed_days_stay BEFORE INSERT OR UPDATE ON settlement_batches
  FOR EACH ROW EXECUTE FUNCTION refuse_in_closed_day();
CREATE TRIGGER closed_days_stay BEFORE INSERT ON settlement_lines
  FOR EACH ROW EXECUTE FUNCTION refuse_in_closed_day();
CREATE TRIGGER closed_days_stay BEFORE INSERT OR UPDATE ON settlement_sums
  FOR EACH ROW EXECUTE FUNCTION refuse_in_closed_day();
CREATE TRIGGER sums_are_kept BEFORE DELETE OR TRUNCATE ON settlement_sums
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_settlement_change();
CREATE FUNCTION refuse_to_open_days() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: a day that is closed stays so', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;
CREATE TRIGGER days_stay_closed BEFORE UPDATE ON settlement_calendar
  FOR EACH ROW WHEN (
    OLD.closed_through > coalesce(NEW.closed_through, '-infinity')
    OR OLD.complete_through > coalesce(NEW.complete_through, '-infinity')
  ) EXECUTE FUNCTION refuse_to_open_days();
CREATE TRIGGER calendar_is_kept BEFORE DELETE OR TRUNCATE ON settlement_calendar
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_open_days();

-- Who may do what. Operators' commands write everything.
GRANT SELECT, INSERT, UPDATE, DELETE
ON partners, api_keys, webhook_endpoints, endpoint_verifications, endpoint_tests
TO triplock_partners;
GRANT SELECT, INSERT (act, partner_id, subject, done_by, why) ON acts TO triplock_partners;
GRANT SELECT ON live_webhook_endpoints, shown_webhook_endpoints TO triplock_partners;
GRANT EXECUTE ON FUNCTION lock_webhook_endpoints, first_webhook_endpoint, rotate_secret_as
TO triplock_partners;
GRANT SELECT ON acts TO triplock_auditor;
-- The gateway authenticates, and makes, sets, deletes, rotates and tests endpoints by the functions
-- above. It reads no other secret, and cannot call an endpoint verified.
GRANT SELECT ON partners, shown_api_keys, shown_webhook_endpoints, endpoint_tests,
  settlement_batches, settlement_lines, settlement_sums, settlement_calendar
TO triplock_gateway;
-- Of keys it reads by whom they are, and makes and deletes them as their partner asks.
GRANT SELECT (sha256, key_id, partner_id, scope, api_version, expires_at, revoked_at) ON api_keys
TO triplock_gateway;
REVOKE ALL ON FUNCTION note_api_key_uses, lock_api_keys, key_that_manages, make_api_key,
  delete_api_key
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_api_key_uses, make_api_key, delete_api_key TO triplock_gateway;
REVOKE ALL ON FUNCTION refuse_too_often, bound_acts FROM PUBLIC;
REVOKE ALL ON FUNCTION lock_webhook_endpoints, first_webhook_endpoint, make_webhook_endpoint,
  set_first_webhook_endpoint, change_webhook_endpoint, delete_webhook_endpoint, rotate_secret_as,
  rotate_webhook_secret, ask_webhook_test
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_webhook_endpoint, set_first_webhook_endpoint,
  change_webhook_endpoint, delete_webhook_endpoint, rotate_webhook_secret, ask_webhook_test
TO triplock_gateway;
-- What whoever signs and sends is granted, its own migrations say.
REVOKE ALL ON FUNCTION take_endpoint_questions, verify_webhook_endpoint, disable_webhook_endpoint,
  note_attempts, answer_webhook_test, answer_endpoint_notice, tell_disabled
FROM PUBLIC;
-- The auditor reads everything but secrets.
GRANT SELECT ON partners, live_webhook_endpoints, deleted_webhook_endpoints, endpoint_wants,
  settlement_batches, settlement_lines, settlement_sums, settlement_calendar
TO triplock_auditor;
GRANT SELECT (endpoint_id, partner_id, url, open_since) ON open_webhook_endpoints TO triplock_auditor;
