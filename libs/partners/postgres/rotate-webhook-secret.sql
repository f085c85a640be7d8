-- Gives a partner's webhook endpoint a new secret, once per idempotency key; the one before it
-- signs too for a day, or until the next rotation. Two at once take turns, and the later one's
-- secret is the newest.
--
-- $1 partner id, $2 idempotency key, $3 the new secret.
-- A row: the rotation of that key, its `secret` and until when the one before it signs. The secret
-- is $3 when it was this call that made it; another one when the key had rotated before, and
-- nothing was written. No row: the partner has no endpoint. The last two keys are known.
SELECT secret, previous_secret_until FROM partners.rotate_webhook_secret($1, $2, $3)
