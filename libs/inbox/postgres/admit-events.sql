-- Moves the cursors of payments to events whose turn it is, and remembers those events.
--
-- $1 consumer, and of each event $2 its id, $3 payload hash, $4 payment id, $5 sequence or null. No
-- payment is named twice.
-- A row: the event `at` this place in the arrays, counted from 1, is in its turn. When it is
-- `remembered` its effect may follow in this transaction. When it is not, its id was known: one
-- without a sequence is a duplicate, and for one that moved its cursor the caller must roll back.
-- No row: it is not its turn, and nothing of it was written.
--
-- It commits together with the effect. A crash before that leaves neither cursor, inbox row nor
-- effect, and Pub/Sub redelivers. A crash after it leaves all three, and the redelivered copy finds
-- that its turn is over.
--
-- A transaction that brings the same event at once waits here until the first one's transaction
-- ends. Everyone takes cursors in the order of the payments, so there is no circle of waits.
WITH offered AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::integer[])
    WITH ORDINALITY AS t (event_id, payload_hash, payment_id, sequence, at)
), next AS MATERIALIZED (
  SELECT cursors.payment_id
  FROM cursors JOIN offered USING (payment_id)
  WHERE cursors.consumer = $1 AND cursors.last_sequence = offered.sequence - 1
  ORDER BY cursors.payment_id
  FOR UPDATE OF cursors
), advanced AS (
  UPDATE cursors SET last_sequence = offered.sequence
  FROM next JOIN offered USING (payment_id)
  WHERE cursors.consumer = $1 AND cursors.payment_id = next.payment_id
    AND cursors.last_sequence = offered.sequence - 1
  RETURNING cursors.payment_id
), begun AS (
  INSERT INTO cursors (consumer, payment_id, last_sequence)
  SELECT $1, payment_id, 1 FROM offered WHERE sequence = 1 ORDER BY payment_id
  ON CONFLICT (consumer, payment_id) DO NOTHING
  RETURNING payment_id
), in_turn AS MATERIALIZED (
  SELECT * FROM offered
  WHERE sequence IS NULL
     OR payment_id IN (SELECT payment_id FROM advanced UNION ALL SELECT payment_id FROM begun)
), remembered AS (
  INSERT INTO inbox (consumer, event_id, payload_hash, payment_id, sequence)
  SELECT $1, event_id, payload_hash, payment_id, sequence FROM in_turn ORDER BY payment_id
  ON CONFLICT (consumer, event_id) DO NOTHING
  RETURNING event_id, payment_id
)
SELECT at::integer, remembered.event_id IS NOT NULL AS remembered
FROM in_turn LEFT JOIN remembered USING (event_id, payment_id)
ORDER BY at
