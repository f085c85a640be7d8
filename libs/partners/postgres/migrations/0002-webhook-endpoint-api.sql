-- Partners see and set their own webhook endpoint, through the gateway.

-- Until when the second secret signs too. A rotation makes it, a day after which it is over.
ALTER TABLE webhook_endpoints ADD COLUMN second_secret_until timestamptz;
UPDATE webhook_endpoints SET second_secret_until = now() + interval '24 hours'
WHERE jsonb_array_length(secrets) = 2;
ALTER TABLE webhook_endpoints ADD CONSTRAINT second_secret_ends
  CHECK ((jsonb_array_length(secrets) = 2) = (second_secret_until IS NOT NULL));

-- How often the URL was set. 1 tells whoever set it that there was no endpoint before, without a
-- look at its secrets.
ALTER TABLE webhook_endpoints ADD COLUMN times_set integer NOT NULL DEFAULT 1;

-- The gateway makes an endpoint with its first secret and sets the URL. It reads no secret.
GRANT SELECT (partner_id, url, second_secret_until, times_set, updated_at),
      INSERT (partner_id, url, secrets),
      UPDATE (url, times_set, updated_at)
ON webhook_endpoints TO triplock_gateway;

-- A new secret moves the one before it to the second place, which needs a right to read it: the
-- owner's, lent by this function. It gives until when that one signs too, or null when the partner
-- has no endpoint.
CREATE FUNCTION rotate_webhook_secret(of_partner text, new_secret text) RETURNS timestamptz
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  UPDATE webhook_endpoints SET
    secrets = jsonb_build_array(new_secret, secrets -> 0),
    second_secret_until = now() + interval '24 hours',
    updated_at = now()
  WHERE partner_id = of_partner
  RETURNING second_secret_until;
END;
REVOKE ALL ON FUNCTION rotate_webhook_secret FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rotate_webhook_secret TO triplock_gateway;
