-- What is done to deliveries, the rows of webhooks to be sent. The tables are in
-- migrations/0001-baseline.sql.

-- name: insertDeliveries
-- Makes the deliveries of events; runs in the transaction of their inbox rows.
--
-- Of each event $1 its id, $2 partner id, $3 transaction id, $4 body, $5 traceparent or null.
-- Nothing happens for an event that has a delivery: its inbox row was removed long ago, the
-- delivery was not.
INSERT INTO deliveries (event_id, partner_id, txn_id, body, traceparent)
SELECT event_id, partner_id, txn_id, body, traceparent
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[])
  AS t (event_id, partner_id, txn_id, body, traceparent)
ORDER BY event_id
ON CONFLICT (event_id) DO NOTHING

-- name: leaseDeliveries
-- Leases deliveries that are due, the same share for every partner, so that no queue is in front
-- of another. What a partner has under way counts to its share: slots that become free one by one
-- would else go to whoever waits longest, and that is who does not answer.
--
-- $1 owner, $2 lease in milliseconds, $3 deliveries at most, $4 deliveries at most that one partner
-- may have at this sender, $5 partners and $6 how many of each are at this sender already.
-- A row: the caller's to send until the lease ends; `attempt` must be given when recording.
-- A delivery whose lease ended is due again: its sender died, and its webhook may have arrived.
WITH RECURSIVE waiting (partner_id) AS (
  -- One look into the index for each partner, however long the queues are.
  (SELECT min(partner_id) FROM deliveries WHERE state = 'pending')
  UNION ALL
  SELECT (SELECT min(partner_id) FROM deliveries
          WHERE state = 'pending' AND partner_id > waiting.partner_id)
  FROM waiting WHERE waiting.partner_id IS NOT NULL
), under_way AS (
  SELECT * FROM unnest($5::text[], $6::integer[]) AS t (partner_id, held)
), due AS MATERIALIZED (
  SELECT next.event_id, next.next_attempt_at,
         coalesce(under_way.held, 0) + row_number()
           OVER (PARTITION BY waiting.partner_id ORDER BY next.next_attempt_at) AS nth
  FROM waiting
  LEFT JOIN under_way USING (partner_id)
  CROSS JOIN LATERAL (
    SELECT event_id, next_attempt_at
    FROM deliveries
    WHERE state = 'pending' AND partner_id = waiting.partner_id AND next_attempt_at <= now()
    ORDER BY next_attempt_at
    LIMIT greatest(0, $4::integer - coalesce(under_way.held, 0))
    FOR UPDATE SKIP LOCKED
  ) AS next
), chosen AS MATERIALIZED (
  SELECT event_id FROM due ORDER BY nth, next_attempt_at LIMIT $3
)
UPDATE deliveries SET
  attempts = attempts + 1,
  lease_owner = $1,
  next_attempt_at = now() + $2 * interval '1 millisecond',
  first_attempt_at = coalesce(first_attempt_at, now()),
  first_attempt = CASE WHEN first_attempt_at IS NULL THEN attempts + 1 ELSE first_attempt END
FROM chosen
WHERE deliveries.event_id = chosen.event_id
RETURNING deliveries.event_id, partner_id, txn_id, body, attempts AS attempt,
  attempts - first_attempt AS failed_before, traceparent

-- name: recordAttempts
-- Records what attempts came to, each for the sender that still holds the delivery.
--
-- $1 event ids, $2 attempts, $3 what each came to (`delivered`, `refused`, `unanswered`,
-- `unsendable`), $4 HTTP statuses or nulls, $5 errors or nulls, $6 milliseconds each took,
-- $7 milliseconds until its next attempt, $8 milliseconds after the first attempt when there shall
-- be no further one. All of one length.
-- A row for each attempt that was recorded, with the delivery's `state` now: `pending` comes again,
-- `failed` was given up. No row: another sender took the delivery over, and nothing was written.
WITH made AS (
  SELECT event_id, attempt, outcome, status, error, took_ms,
         now() + next_in_ms * interval '1 millisecond' AS next_at,
         patience_ms * interval '1 millisecond' AS patience
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::integer[], $5::text[], $6::integer[],
              $7::bigint[], $8::bigint[])
       AS t (event_id, attempt, outcome, status, error, took_ms, next_in_ms, patience_ms)
), recorded AS (
  UPDATE deliveries SET
    state = CASE
      WHEN outcome = 'delivered' THEN 'delivered'
      WHEN next_at > first_attempt_at + patience THEN 'failed'
      ELSE 'pending'
    END,
    finished_at = CASE
      WHEN outcome = 'delivered' OR next_at > first_attempt_at + patience THEN now()
    END,
    next_attempt_at = next_at,
    lease_owner = NULL,
    last_outcome = outcome,
    last_status = status,
    last_error = error
  FROM made
  WHERE deliveries.event_id = made.event_id AND attempts = attempt AND state = 'pending'
  RETURNING deliveries.event_id, attempt, state, status, error, took_ms
), logged AS (
  INSERT INTO delivery_attempts (event_id, attempt, status, error, took_ms)
  SELECT event_id, attempt, status, error, took_ms FROM recorded
)
SELECT event_id, attempt, state FROM recorded

-- name: measureBacklog
-- How much is still to be delivered.
--
-- One row: deliveries that wait, and the age in seconds of the oldest, 0 when there is none.
SELECT count(*)::integer AS waiting,
       coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
FROM deliveries
WHERE state = 'pending'

-- name: reapDeliveries
-- Removes webhooks that were delivered long ago, with their attempts, oldest first.
--
-- $1 milliseconds for which they are kept, a day at least; $2 deliveries at most.
-- Always one row: how many were removed. 0: none is old enough.
SELECT reap_deliveries($1::float8 * interval '1 millisecond', $2::integer) AS reaped
