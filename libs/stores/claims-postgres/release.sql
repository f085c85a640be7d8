-- Ends the lease of a claim at once and keeps everything else: the fingerprint above all, so that
-- only the same request takes over. One atomic step.
--
-- $1 namespace, $2 txn_id, $3 owner token.
-- A row: the claim is released. No row: it is another owner's, completed or gone, and nothing was
-- written.
UPDATE claims SET state = 'released'
WHERE namespace = $1 AND txn_id = $2 AND owner = $3
  AND state <> 'completed' AND expires_at > clock_timestamp()
RETURNING txn_id
