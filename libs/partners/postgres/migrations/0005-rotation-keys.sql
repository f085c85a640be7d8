-- A rotation takes effect once per idempotency key: a retry is told the secret that the first one
-- made. Otherwise each retry would make another, and of two good secrets throw out the one in use.

-- The last two rotations, newest first, as they were answered: `key`, `secret` and `until`, the end of
-- the secret before it. Of older ones no secret signs any more.
ALTER TABLE webhook_endpoints ADD COLUMN rotations jsonb NOT NULL DEFAULT '[]' CHECK (
  jsonb_typeof(rotations) = 'array' AND jsonb_array_length(rotations) <= 2
);

DROP FUNCTION rotate_webhook_secret(text, text);

-- Gives a partner's endpoint a new secret, unless it was rotated under this key. The gateway may read
-- secrets by this alone, and only those that it made under the key that it shows.
--
-- A row: the rotation of that key; `new_secret` is its secret when it was this call that made it. No
-- row: the partner has no endpoint. Two at once take turns on the row, and everything is decided by
-- the row as it is then.
CREATE FUNCTION rotate_webhook_secret(of_partner text, by_key text, new_secret text)
RETURNS TABLE (secret text, previous_secret_until timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
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
    (SELECT each ->> 'secret' FROM jsonb_array_elements(known.rotations) AS each
     WHERE each ->> 'key' = by_key),
    (SELECT (each ->> 'until')::timestamptz FROM jsonb_array_elements(known.rotations) AS each
     WHERE each ->> 'key' = by_key);
END;
REVOKE ALL ON FUNCTION rotate_webhook_secret FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rotate_webhook_secret TO triplock_gateway;
