-- Payments whose cursor is not where the newest applied event is, or that skipped one.
SELECT applied.payment_id::text AS id, applied.since
FROM (
  SELECT consumer, payment_id, max(sequence) AS newest, count(*) AS events,
         min(received_at) AS since
  FROM notifier.inbox
  WHERE sequence IS NOT NULL
  GROUP BY consumer, payment_id
) AS applied
LEFT JOIN notifier.cursors USING (consumer, payment_id)
WHERE cursors.last_sequence IS DISTINCT FROM applied.newest OR applied.events <> applied.newest
ORDER BY since LIMIT 100
