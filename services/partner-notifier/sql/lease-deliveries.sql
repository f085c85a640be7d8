-- Leases deliveries that are due, the same share for every partner, so that no queue is in front
-- of another. What a partner has at work counts as its turns: room that becomes free one by one
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
), at_work AS (
  SELECT * FROM unnest($5::text[], $6::integer[]) AS t (partner_id, held)
), due AS MATERIALIZED (
  SELECT next.event_id, next.next_attempt_at,
         coalesce(at_work.held, 0) + row_number()
           OVER (PARTITION BY waiting.partner_id ORDER BY next.next_attempt_at) AS turn
  FROM waiting
  LEFT JOIN at_work USING (partner_id)
  CROSS JOIN LATERAL (
    SELECT event_id, next_attempt_at
    FROM deliveries
    WHERE state = 'pending' AND partner_id = waiting.partner_id AND next_attempt_at <= now()
    ORDER BY next_attempt_at
    LIMIT greatest(0, $4::integer - coalesce(at_work.held, 0))
    FOR UPDATE SKIP LOCKED
  ) AS next
), chosen AS MATERIALIZED (
  SELECT event_id FROM due ORDER BY turn, next_attempt_at LIMIT $3
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
