-- How many payments came how far, everything ever counted, so that a run is the growth between two.
-- `now` and the last times are the database's clock; a last time is null where nothing is.
SELECT
  clock_timestamp() AS now,
  (SELECT count(*)::integer FROM ledger.transactions WHERE state <> 'pending') AS settled,
  (SELECT count(*)::integer FROM ledger.outbox WHERE state = 'published') AS published,
  (SELECT max(published_at) FROM ledger.outbox) AS "lastPublished",
  (SELECT count(*)::integer FROM notifier.deliveries WHERE state = 'delivered') AS delivered,
  (SELECT max(finished_at) FROM notifier.deliveries) AS "lastDelivered",
  (SELECT count(*)::integer FROM auditor.accepted) AS recorded,
  (SELECT count(*)::integer FROM auditor.published) AS witnessed
