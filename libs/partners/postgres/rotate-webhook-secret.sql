-- Gives a partner's webhook endpoint a new secret; the one before it signs too for a day, or until
-- the next rotation. Two at once take turns, and the later one's secret is the newest.
--
-- $1 partner id, $2 the new secret.
-- Always one row: `second_secret_until` is the end of that day, null when the partner has no
-- endpoint and nothing was written.
SELECT partners.rotate_webhook_secret($1, $2) AS second_secret_until
