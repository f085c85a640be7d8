-- Where a partner's webhooks go.
--
-- $1 partner id.
-- A row: its URL and its secrets, newest first. No row: the partner has no endpoint.
SELECT url, secrets FROM partners.webhook_endpoints WHERE partner_id = $1
