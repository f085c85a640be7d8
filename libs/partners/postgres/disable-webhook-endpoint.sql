-- Disables a partner's webhook endpoint, by the function that the table's owner lends for it.
--
-- $1 partner id, $2 the URL that wants no more webhooks.
-- Always one row: whether it is disabled by this call; not so when it was before, or has another URL.
SELECT partners.disable_webhook_endpoint($1, $2) AS disabled
