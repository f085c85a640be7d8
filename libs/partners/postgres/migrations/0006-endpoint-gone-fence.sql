-- A 410 Gone that was long on its way must not disable an endpoint that its partner has set again since,
-- to the same URL too: what was asked is told apart by when it was changed last.

DROP FUNCTION disable_webhook_endpoint(text, text);

-- Disables a partner's endpoint, unless it was changed since it was as of `of_version`.
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
  )
  SELECT EXISTS (SELECT FROM disabled);
END;
REVOKE ALL ON FUNCTION disable_webhook_endpoint FROM PUBLIC;
GRANT EXECUTE ON FUNCTION disable_webhook_endpoint TO triplock_notifier;
