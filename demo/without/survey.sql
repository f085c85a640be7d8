-- What there is of everything in a system of its own. Always one row.
--
-- No parameters. `waiting` is what is still on its way behind the ledger.
SELECT
  (SELECT count(*) FROM ledger.transactions)::int AS rows,
  (SELECT count(*) FROM ledger.entries)::int AS entries,
  (SELECT count(*) FROM ledger.outbox WHERE event_type = 'payment.key_conflict')::int AS conflicts,
  (SELECT count(*) FROM ledger.outbox)::int AS events,
  (SELECT coalesce(sum(copies), 0) FROM auditor.published)::int AS copies,
  (SELECT count(*) FROM notifier.inbox)::int AS "inboxRows",
  (SELECT count(*) FROM notifier.deliveries)::int
  + (SELECT count(*) FROM notifier.earlier_deliveries)::int AS deliveries,
  (SELECT count(*) FROM ledger.outbox WHERE state = 'pending')::int
  + (SELECT count(DISTINCT event_id) FROM ledger.outbox
     WHERE event_id NOT IN (SELECT event_id FROM auditor.published)
        OR event_id NOT IN (SELECT event_id FROM notifier.inbox))::int
  + (SELECT count(*) FROM notifier.deliveries WHERE state = 'pending')::int AS waiting
