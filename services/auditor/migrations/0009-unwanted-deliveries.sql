-- Webhooks that their partner does not want: its server answered 410 Gone, and it has not set the
-- endpoint again. Once it has, what waits is sent, and what was given up is to be sent once more.
CREATE VIEW unwanted_deliveries AS
SELECT deliveries.event_id, deliveries.partner_id, deliveries.body
FROM notifier.deliveries
JOIN partners.webhook_endpoints ON webhook_endpoints.partner_id = deliveries.partner_id
WHERE deliveries.state <> 'delivered' AND webhook_endpoints.disabled_at IS NOT NULL;

GRANT SELECT ON unwanted_deliveries TO triplock_auditor;
