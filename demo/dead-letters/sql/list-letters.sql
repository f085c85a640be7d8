-- Events that can never be published and webhooks that were given up, oldest first.
--
-- A row: one dead letter. Events that only wait behind a parked one of their payment are not
-- listed: they leave together with it.
SELECT 'outbox:' || event_id AS id, created_at AS at, partner_id AS partner, txn_id AS about,
       parked_reason AS reason
FROM ledger.outbox
WHERE state = 'parked' AND parked_reason NOT LIKE 'behind %'
UNION ALL
SELECT 'webhook:' || event_id, finished_at, partner_id, txn_id,
       concat_ws(', ', 'given up after ' || attempts || ' attempts', 'HTTP ' || last_status, last_error)
FROM notifier.deliveries
WHERE state = 'failed'
ORDER BY at, id
