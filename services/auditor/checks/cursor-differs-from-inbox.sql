-- Payments whose cursor is not where the newest applied event is, or that skipped one. A payment
-- older than what left the inbox by age may miss its first events there; the request's clock is a
-- gateway's and may differ from the database's by some minutes.
SELECT applied.payment_id::text AS id, applied.since
FROM (
  SELECT consumer, payment_id, max(sequence) AS newest, min(sequence) AS oldest,
         count(*) AS events, min(received_at) AS since
  FROM notifier.inbox
  WHERE sequence IS NOT NULL
  GROUP BY consumer, payment_id
) AS applied
LEFT JOIN notifier.cursors USING (consumer, payment_id)
WHERE cursors.last_sequence IS DISTINCT FROM applied.newest
  OR applied.events <> applied.newest - applied.oldest + 1
  OR applied.oldest > 1 AND NOT EXISTS (
    SELECT FROM notifier.inbox_horizons, ledger.transactions
    WHERE inbox_horizons.consumer = applied.consumer
      AND transactions.txn_id = applied.payment_id
      AND transactions.created_at < inbox_horizons.reaped_before + interval '1 hour'
  )
