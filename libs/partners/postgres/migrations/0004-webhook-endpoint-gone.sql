-- A server that answers 410 Gone wants no more webhooks: its endpoint is disabled until its partner
-- sets it again. What is to be delivered waits as it does without an endpoint.

ALTER TABLE webhook_endpoints ADD COLUMN disabled_at timestamptz;

GRANT SELECT (disabled_at), UPDATE (disabled_at) ON webhook_endpoints TO triplock_gateway;

-- Disables a partner's endpoint, unless it has another URL by now.
--
-- Returns whether it is disabled by this call. The sender may change an endpoint by this alone.
CREATE FUNCTION disable_webhook_endpoint(of_partner text, of_url text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = partners, pg_temp
BEGIN ATOMIC
  WITH disabled AS (
    UPDATE webhook_endpoints SET disabled_at = now()
    WHERE partner_id = of_partner AND url = of_url AND disabled_at IS NULL
    RETURNING partner_id
  )
  SELECT EXISTS (SELECT FROM disabled);
END;
REVOKE ALL ON FUNCTION disable_webhook_endpoint FROM PUBLIC;
GRANT EXECUTE ON FUNCTION disable_webhook_endpoint TO triplock_notifier;
