-- Remembers an event and moves its payment's cursor to it.
--
-- $1 consumer, $2 event id, $3 payload hash, $4 payment id, $5 sequence or null.
-- Always one row. `remembered` is false when the event id is known here, and then nothing was
-- written. `in_order` is false when the sequence is not the next one; the event was remembered all
-- the same, so the caller must roll back. Both true: the effect may follow in this transaction.
--
-- A second receiver of the same event waits at the insert until the first one's transaction ends.
WITH remembered AS (
  INSERT INTO inbox (consumer, event_id, payload_hash, payment_id, sequence)
  VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (consumer, event_id) DO NOTHING
  RETURNING consumer, payment_id, sequence
), begun AS (
  INSERT INTO cursors (consumer, payment_id, last_sequence)
  SELECT consumer, payment_id, sequence FROM remembered WHERE sequence = 1
  ON CONFLICT (consumer, payment_id) DO NOTHING
  RETURNING last_sequence
), advanced AS (
  UPDATE cursors SET last_sequence = remembered.sequence
  FROM remembered
  WHERE cursors.consumer = remembered.consumer
    AND cursors.payment_id = remembered.payment_id
    AND cursors.last_sequence = remembered.sequence - 1
  RETURNING cursors.last_sequence
)
SELECT
  EXISTS (SELECT FROM remembered) AS remembered,
  $5::integer IS NULL OR EXISTS (SELECT FROM begun) OR EXISTS (SELECT FROM advanced) AS in_order
