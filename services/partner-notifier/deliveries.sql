-- What is done to deliveries, the rows of webhooks to be sent, which are in the schema webhooks of
-- libs/partners.

-- name: leaseDeliveries
-- Makes deliveries and leases what is due, by the function of this schema's baseline, which says
-- how they are shared and counted: one sender after the other.
--
-- $1 owner, $2 lease in milliseconds, $3 deliveries at most; $4 how many one partner may have in
-- flight and $5 one host, and $6 and $7 how many attempts of each may be begun in a second,
-- whichever senders make them. Of each delivery that is made, in the transaction of its event's
-- inbox row, $8 event id, $9 partner id, $10 transaction id, $11 type, $12 body, $13 traceparent or
-- null.
-- A row: the caller's to send from the commit until the lease ends; `attempt` must be given when
-- recording. `host` is where it may go, null when its endpoint is not open. Always a row, without
-- an `event_id` when nothing was leased; of the partners in `left_of` something is due that had no
-- room.
SELECT event_id, ordinal, partner_id, endpoint_id, txn_id, attempt, failed_before, traceparent, host,
       left_of
FROM lease_deliveries(
  $1, $2::float8 * interval '1 millisecond', $3::integer,
  $4::integer, $5::integer, $6::integer, $7::integer,
  $8::uuid[], $9::text[], $10::uuid[], $11::text[], $12::text[], $13::text[]
)

-- name: readBodies
-- What the deliveries say that waited and were leased: never changed, and too long to be read
-- while other senders wait for their lease.
--
-- $1 event ids, none twice, whose deliveries all say the same. A row for each. They are looked up
-- one by one: for many at once a planner would rather read all of a table that has yet to grow.
SELECT asked.event_id, its.body
FROM unnest($1::uuid[]) AS asked (event_id)
CROSS JOIN LATERAL (
  SELECT body FROM webhooks.deliveries
  WHERE deliveries.event_id = asked.event_id
  ORDER BY ordinal
  LIMIT 1
) AS its

-- name: recordAttempts
-- Records what attempts came to, each for the sender that still holds the delivery, by the function
-- of this schema's baseline.
--
-- $1 event ids, $2 attempts, $3 what each came to (`delivered`, `refused`, `unanswered`,
-- `unsendable`, or `not-sent` where its endpoint was not open at the host it was leased for, or the
-- secret could not be opened), $4 HTTP statuses or nulls, $5 errors or nulls, $6 milliseconds each
-- took, $7 milliseconds until its next attempt, $8 milliseconds after the first attempt when there
-- shall be no further one, $9 which of the events' deliveries. All of one length. $10 milliseconds
-- after which an endpoint is disabled that has taken nothing, by a delivery that has been tried for
-- long. $11 milliseconds for which each
-- attempt's server asks not to be called, or nulls.
-- A row for each attempt that was recorded, with the delivery's `state` now: `pending` comes
-- again, `parked` waits for its endpoint, `failed` was given up, `canceled` lost its endpoint;
-- `disabled` is parked, and of those of an endpoint that this call disabled the one that says it.
-- No row: another sender took the delivery over, or the attempt was recorded before, which ended
-- its lease, and nothing was written.
SELECT event_id, ordinal, attempt, state
FROM record_attempts(
  $1::uuid[], $2::integer[], $3::text[], $4::integer[], $5::text[], $6::integer[], $7::bigint[],
  $8::bigint[], $9::smallint[], $10::float8 * interval '1 millisecond', $11::bigint[]
)

-- name: releaseDeliveries
-- Makes parked deliveries due whose endpoint is open by now, with all the time for attempts before
-- them, oldest first within an endpoint; and ends what waits for an endpoint that was deleted, or
-- was given up there: nobody can ask for it again.
--
-- What was parked because its partner had no endpoint is, once one is open, its oldest endpoint's
-- that wants it, and parked for that one while it is not open; what none wants is owed no more.
--
-- $1 deliveries at most of each kind. A row: one was released, given an endpoint or ended. No row:
-- there is nothing to do. Goes by what is there and not by what changed: an endpoint that was
-- opened or deleted while nobody looked, or while a delivery was being made, parked, given up or
-- asked for again, is found by the next look, and a crash in between leaves what was not done for
-- it. What is being sent is left to its sender.
WITH ready AS MATERIALIZED (
  SELECT parked.*, live.is_open,
         parked.endpoint_id <> '00000000-0000-0000-0000-000000000000' AS is_ones
  FROM queues_with('parked') AS parked
  LEFT JOIN partners.live_webhook_endpoints AS live ON live.endpoint_id = parked.endpoint_id
  WHERE CASE WHEN parked.endpoint_id <> '00000000-0000-0000-0000-000000000000'
    THEN live.is_open IS NOT FALSE
    ELSE EXISTS (
      SELECT FROM partners.open_webhook_endpoints AS open
      WHERE open.partner_id = parked.partner_id OFFSET 0
    )
  END
), parked AS MATERIALIZED (
  SELECT next.*, ready.is_open, is_ones
  FROM ready
  CROSS JOIN LATERAL (
    SELECT event_id, ordinal, partner_id, endpoint_id, body
    FROM webhooks.deliveries
    WHERE state = 'parked' AND partner_id = ready.partner_id AND endpoint_id = ready.endpoint_id
    ORDER BY next_attempt_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
  ) AS next
  LIMIT $1
), deleted AS MATERIALIZED (
  SELECT next.*
  FROM queues_with('pending') AS pending
  JOIN partners.deleted_webhook_endpoints AS deleted USING (endpoint_id)
  CROSS JOIN LATERAL (
    SELECT event_id, ordinal, endpoint_id
    FROM webhooks.deliveries
    WHERE state = 'pending' AND partner_id = pending.partner_id
      AND endpoint_id = pending.endpoint_id
      AND (lease_owner IS NULL OR next_attempt_at <= now())
    ORDER BY next_attempt_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
  ) AS next
  LIMIT $1
), given_up AS MATERIALIZED (
  SELECT next.*
  FROM queues_with('failed') AS failed
  JOIN partners.deleted_webhook_endpoints AS deleted USING (endpoint_id)
  CROSS JOIN LATERAL (
    SELECT event_id, ordinal, endpoint_id
    FROM webhooks.deliveries
    WHERE state = 'failed' AND partner_id = failed.partner_id AND endpoint_id = failed.endpoint_id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
  ) AS next
  LIMIT $1
), decided AS (
  SELECT event_id, ordinal, endpoint_id, 'canceled' AS to_state
  FROM (SELECT * FROM deleted UNION ALL SELECT * FROM given_up) AS ended
  UNION ALL
  SELECT event_id, ordinal, endpoint_id, CASE WHEN is_open THEN 'pending' ELSE 'canceled' END
  FROM parked
  WHERE is_ones
  UNION ALL
  SELECT event_id, ordinal, coalesce(wanting.endpoint_id, parked.endpoint_id),
         CASE WHEN wanting.is_open THEN 'pending'
              WHEN wanting.endpoint_id IS NULL THEN 'unwanted' ELSE 'parked' END
  FROM parked
  LEFT JOIN LATERAL (
    SELECT live.endpoint_id, live.is_open
    FROM partners.live_webhook_endpoints AS live
    WHERE live.partner_id = parked.partner_id
      AND (live.event_types IS NULL OR parked.body::json ->> 'type' = ANY (live.event_types))
    ORDER BY live.made_at, live.endpoint_id
    LIMIT 1
  ) AS wanting ON true
  WHERE NOT is_ones
)
UPDATE webhooks.deliveries SET
  state = to_state,
  endpoint_id = decided.endpoint_id,
  next_attempt_at = CASE WHEN to_state = 'pending' THEN now() ELSE next_attempt_at END,
  first_attempt_at = CASE WHEN to_state <> 'pending' THEN first_attempt_at END,
  finished_at = CASE WHEN to_state = 'canceled' THEN now() END,
  lease_owner = NULL
FROM decided
WHERE deliveries.event_id = decided.event_id AND deliveries.ordinal = decided.ordinal
RETURNING deliveries.event_id

-- name: measureBacklog
-- How much is still to be delivered, and how much waits for an endpoint, up to a limit: it is asked
-- every few seconds, and an outage of a week must not make each of them a walk over millions.
--
-- $1 deliveries at most that are counted of one endpoint, those due soonest first, $2 in all.
-- One row: deliveries that a sender has still to send, and the age in seconds of the oldest of
-- them, 0 when there is none; and the same of those that are parked, from when they were. Either
-- number may be more where an endpoint has $1 or all together have $2.
SELECT pending.*, parked.*
FROM (
  SELECT count(*)::integer AS waiting,
         coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "oldestSeconds"
  FROM (
    SELECT counted.created_at
    FROM queues_with('pending') AS queue
    CROSS JOIN LATERAL (
      SELECT created_at FROM webhooks.deliveries
      WHERE state = 'pending' AND partner_id = queue.partner_id AND endpoint_id = queue.endpoint_id
      ORDER BY next_attempt_at
      LIMIT $1
    ) AS counted
    LIMIT $2
  ) AS counted
) AS pending, (
  SELECT count(*)::integer AS parked,
         coalesce(extract(epoch FROM now() - min(next_attempt_at)), 0)::float8
           AS "oldestParkedSeconds"
  FROM (
    SELECT counted.next_attempt_at
    FROM queues_with('parked') AS queue
    CROSS JOIN LATERAL (
      SELECT next_attempt_at FROM webhooks.deliveries
      WHERE state = 'parked' AND partner_id = queue.partner_id AND endpoint_id = queue.endpoint_id
      ORDER BY next_attempt_at
      LIMIT $1
    ) AS counted
    LIMIT $2
  ) AS counted
) AS parked

-- name: countSpentRates
-- How many partners and hosts may begin no attempt now, because they have spent their rate; they
-- have a row each, and nobody else has one for long (forgetRates). And to how many endpoints none
-- may be begun because their servers turn some away.
--
-- $1 attempts a second of a partner, $2 of a host. Always one row.
SELECT count(*) FILTER (WHERE kind = 'partner' AND attempts_left(busy_until, $1::integer, now()) < 1)::integer
         AS partners,
       count(*) FILTER (WHERE kind = 'host' AND attempts_left(busy_until, $2::integer, now()) < 1)::integer
         AS hosts,
       (SELECT count(*)::integer FROM endpoint_paces
        WHERE pace_left(endpoint_paces, (
          SELECT spent.busy_until FROM send_rates AS spent
          WHERE spent.kind = 'endpoint' AND spent.name = endpoint_id::text
        ), now()) < 1) AS endpoints
FROM send_rates
WHERE busy_until > now()

-- name: forgetRates
-- Removes the rates of whoever has rested: no row says the same. One that is being spent stays, and
-- one that somebody begins to spend just now is not waited for.
DELETE FROM send_rates WHERE (kind, name) IN (
  SELECT kind, name FROM send_rates WHERE busy_until < now() FOR UPDATE SKIP LOCKED
)

-- name: forgetPaces
-- Removes the paces of endpoints that have turned nothing away for ten minutes: they are sent what
-- their partner may be sent again. One that is noted of just now is not waited for.
DELETE FROM endpoint_paces WHERE endpoint_id IN (
  SELECT endpoint_id FROM endpoint_paces
  WHERE slowed_at < now() - interval '10 minutes' AND paused_until < now()
  FOR UPDATE SKIP LOCKED
)

-- name: reapDeliveries
-- Removes webhooks that were delivered, given up or parked long ago, with their attempts, oldest
-- first.
--
-- $1 milliseconds for which delivered ones are kept and $2 those for which the others are, a day at
-- least; $3 deliveries at most.
-- Always one row: how many were removed. 0: none is old enough.
SELECT webhooks.reap_deliveries(
  $1::float8 * interval '1 millisecond', $2::float8 * interval '1 millisecond', $3::integer
) AS reaped

-- name: reapSettings
-- Removes what partners' settings left behind long ago: `reap_settings` says what.
--
-- $1 rows of a kind at most. Always one row: how many were removed. 0: none is old enough.
SELECT webhooks.reap_settings($1::integer) AS reaped
