-- How much there is of everything. Always one row.
--
-- `accepted` is every distinct request in the topic, readable or not, so that it equals ledger
-- rows, dead letters and key conflicts together. A dead letter that lost its key is a key conflict,
-- and one that was posted later is a ledger row: neither is counted as a dead letter. What left by
-- age is still counted. `charges` are the provider's, that succeeded. `unwanted` are
-- deliveries to an endpoint whose server said 410 Gone, until its partner sets it again.
SELECT
  (SELECT count(*) FROM auditor.accepted) + (SELECT count(*) FROM auditor.accepted_refused)
    AS accepted,
  (SELECT count(*) FROM ledger.transactions) AS ledger,
  (SELECT count(*) FROM auditor.dead_letters WHERE txn_id IS NULL)
    + (SELECT count(DISTINCT (txn_id, fingerprint)) FROM auditor.dead_letters
       WHERE txn_id IS NOT NULL
         AND NOT EXISTS (SELECT FROM ledger.transactions
                         WHERE transactions.txn_id = dead_letters.txn_id)) AS "deadLettered",
  (SELECT count(*) FROM ledger.outbox WHERE event_type = 'payment.key_conflict') AS "keyConflicts",
  (SELECT count(*) FROM auditor.charges WHERE status = 'succeeded') AS charges,
  (SELECT count(*) FROM ledger.outbox) + (SELECT events FROM ledger.outbox_horizon) AS events,
  (SELECT count(*) FROM auditor.published) AS published,
  (SELECT count(*) FROM notifier.inbox WHERE consumer = 'partner-notifier')
    + coalesce((SELECT events FROM notifier.inbox_horizons WHERE consumer = 'partner-notifier'), 0)
    AS inbox,
  (SELECT count(*) FROM notifier.deliveries WHERE state = 'delivered')
    + (SELECT coalesce(sum(deliveries), 0)::bigint FROM notifier.reaped_deliveries) AS deliveries,
  (SELECT count(*) FROM auditor.unwanted_deliveries) AS unwanted
