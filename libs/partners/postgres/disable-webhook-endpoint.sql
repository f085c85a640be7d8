-- Disables a partner's webhook endpoint, by the function that the table's owner lends for it.
--
-- $1 partner id, $2 the version of the endpoint that wants no more webhooks.
-- Always one row: whether it is disabled by this call; not so when it was before, or was changed
-- since.
SELECT partners.disable_webhook_endpoint($1, $2::timestamptz) AS disabled
