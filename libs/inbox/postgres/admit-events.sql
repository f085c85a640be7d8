-- Moves the cursors of ordering keys to the events that come next in them, and remembers those
-- events.
--
-- $1 consumer, and of each event $2 its id, $3 payload hash, $4 ordering key, $5 sequence or null.
-- No ordering key is named twice.
-- A row: the event `at` this index of the arrays, counted from 1, is in order. When it is
-- `remembered` its effect may follow in this transaction. When it is not, its id was known: one
-- without a sequence is a duplicate, and for one that moved its cursor the caller must roll back.
-- No row: it does not come next, and nothing of it was written.
--
-- It commits together with the effect. A crash before that leaves neither cursor, inbox row nor
-- effect, and Pub/Sub redelivers. A crash after it leaves all three, and the redelivered copy finds
-- the cursor past it.
--
-- A transaction that brings the same event at once waits here until the first one's transaction
-- ends. Everyone takes cursors in the order of the keys, so there is no circle of waits.
WITH offered AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::integer[])
    WITH ORDINALITY AS t (event_id, payload_hash, ordering_key, sequence, at)
), next AS MATERIALIZED (
  SELECT cursors.ordering_key
  FROM cursors JOIN offered USING (ordering_key)
  WHERE cursors.consumer = $1 AND cursors.last_sequence = offered.sequence - 1
  ORDER BY cursors.ordering_key
  FOR UPDATE OF cursors
), advanced AS (
  UPDATE cursors SET last_sequence = offered.sequence
  FROM next JOIN offered USING (ordering_key)
  WHERE cursors.consumer = $1 AND cursors.ordering_key = next.ordering_key
    AND cursors.last_sequence = offered.sequence - 1
  RETURNING cursors.ordering_key
), begun AS (
  INSERT INTO cursors (consumer, ordering_key, last_sequence)
  SELECT $1, ordering_key, 1 FROM offered WHERE sequence = 1 ORDER BY ordering_key
  ON CONFLICT (consumer, ordering_key) DO NOTHING
  RETURNING ordering_key
), in_order AS MATERIALIZED (
  SELECT * FROM offered
  WHERE sequence IS NULL
     OR ordering_key IN (SELECT ordering_key FROM advanced UNION ALL SELECT ordering_key FROM begun)
), remembered AS (
  INSERT INTO inbox (consumer, event_id, payload_hash, ordering_key, sequence)
  SELECT $1, event_id, payload_hash, ordering_key, sequence FROM in_order ORDER BY ordering_key
  ON CONFLICT (consumer, event_id) DO NOTHING
  RETURNING event_id, ordering_key
)
SELECT at::integer, remembered.event_id IS NOT NULL AS remembered
FROM in_order LEFT JOIN remembered USING (event_id, ordering_key)
ORDER BY at
