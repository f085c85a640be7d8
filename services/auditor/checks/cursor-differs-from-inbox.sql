-- Payments whose cursor is not where the newest applied event is, or that skipped one. A payment
-- older than what left the inbox by age may miss its first events there; the request's clock is a
-- gateway's and may differ from the database's by some minutes.
SELECT applied.ordering_key::text AS id, applied.since
FROM (
  SELECT consumer, ordering_key, max(sequence) AS newest, min(sequence) AS oldest,
         count(*) AS events, min(received_at) AS since
  FROM notifier.inbox
  WHERE sequence IS NOT NULL
  GROUP BY consumer, ordering_key
) AS applied
LEFT JOIN notifier.cursors USING (consumer, ordering_key)
WHERE cursors.last_sequence IS DISTINCT FROM applied.newest
  OR applied.events <> applied.newest - applied.oldest + 1
  OR applied.oldest > 1 AND NOT EXISTS (
    SELECT FROM notifier.inbox_horizons, ledger.transactions
    WHERE inbox_horizons.consumer = applied.consumer
      AND transactions.txn_id = applied.ordering_key
      AND transactions.created_at < inbox_horizons.reaped_before + interval '1 hour'
  )
