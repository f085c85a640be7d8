-- What of deliveries is missing, and what was removed by age: a part of the audit's check
-- reaped_differs_from_missing, which says what a row is.
SELECT 'webhooks.deliveries', sum(last_sequence), 0, NULL FROM notifier.cursors
UNION ALL
SELECT 'webhooks.deliveries', count(*), 0, NULL FROM notifier.inbox WHERE sequence IS NULL
UNION ALL
SELECT 'webhooks.deliveries', sum(CASE WHEN ordinal = 1 THEN made_together - 2 ELSE -1 END),
       0, NULL
FROM webhooks.deliveries
UNION ALL
SELECT 'webhooks.deliveries', others, deliveries, NULL FROM webhooks.reaped_deliveries
UNION ALL
SELECT 'webhooks.deliveries', 0, 0, reaped_before FROM webhooks.deliveries_horizon
