-- How webhooks are sent: whose turn it is. The deliveries themselves are the schema webhooks
-- (libs/partners/postgres/webhooks): they commit with this schema's inbox rows, what was leased with that
-- is sent from memory after the commit, and everything else by a loop of its own.

-- Endpoints that have deliveries in a state: one look into an index for each of them, however long
-- their queues are. It is part of the statement that calls it, so a state that is written there, as
-- `pending`, `parked` or `failed`, finds the index of that state.
CREATE FUNCTION queues_with(of_state text) RETURNS TABLE (partner_id text, endpoint_id uuid)
LANGUAGE sql STABLE
BEGIN ATOMIC
  WITH RECURSIVE found (partner_id, endpoint_id) AS (
    (SELECT deliveries.partner_id, deliveries.endpoint_id FROM webhooks.deliveries
     WHERE state = of_state
     ORDER BY deliveries.partner_id, deliveries.endpoint_id LIMIT 1)
    UNION ALL
    SELECT next.partner_id, next.endpoint_id
    FROM found
    CROSS JOIN LATERAL (
      SELECT deliveries.partner_id, deliveries.endpoint_id FROM webhooks.deliveries
      WHERE state = of_state
        AND (deliveries.partner_id, deliveries.endpoint_id) > (found.partner_id, found.endpoint_id)
      ORDER BY deliveries.partner_id, deliveries.endpoint_id LIMIT 1
    ) AS next
  )
  SELECT found.partner_id, found.endpoint_id FROM found;
END;
REVOKE EXECUTE ON FUNCTION queues_with FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queues_with TO triplock_notifier;

-- How much of their rates partners, target hosts and slowed endpoints have spent: until `busy_until` the
-- attempts that were begun would have lasted, had they come one after the other at that rate (GCRA, ITU-T
-- I.371). A row that is in the past says what no row says.
CREATE TABLE send_rates (
  kind text NOT NULL CHECK (kind IN ('partner', 'host', 'endpoint')),
  name text NOT NULL,
  busy_until timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
);
GRANT SELECT, INSERT, UPDATE (busy_until), DELETE ON send_rates TO triplock_notifier;

-- Endpoints whose servers turn some of what they are sent away, because it is too much: with a 429, a 502,
-- a 504, or a 503 that says when to come again (Standard Webhooks 1.0, "Delivery success and failure").
-- Each is sent what it takes, as whoever sends finds out: half as much a second whenever something is
-- turned away that was begun at this rate, and a tenth more a second while all is taken. It begins by what
-- was taken of what ended together, the faster the fewer of those were turned away: at ten a second where
-- most were. An endpoint that has no row is as fast as its partner may be.
CREATE TABLE endpoint_paces (
  endpoint_id uuid PRIMARY KEY,
  a_second float8 NOT NULL CHECK (a_second BETWEEN 0.1 AND 1000000),
  -- Until then its server asks not to be called.
  paused_until timestamptz NOT NULL,
  -- When it was slowed last: what was begun before, and turned away, was begun at another rate.
  slowed_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON endpoint_paces TO triplock_notifier;

-- How many attempts may be begun at a moment at an endpoint's pace, of which `busy_until` are spent: after
-- a rest what it takes in a quarter of a second at once, and one at least.
CREATE FUNCTION pace_left(pace endpoint_paces, busy_until timestamptz, moment timestamptz)
RETURNS integer
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN pace.paused_until > moment THEN 0 ELSE floor(
  -- What is exactly one must not be a little less.
  0.000001 + pace.a_second * greatest(0, greatest(0.25, 1 / pace.a_second)
    + extract(epoch FROM moment - greatest(busy_until, moment)))
) END::integer;

-- How many attempts may be begun at a moment at so many a second, as many at once after a rest.
CREATE FUNCTION attempts_left(busy_until timestamptz, a_second integer, moment timestamptz)
RETURNS integer
LANGUAGE sql IMMUTABLE
RETURN floor(
  a_second * greatest(0, extract(epoch FROM moment + interval '1 second' - greatest(busy_until, moment)))
)::integer;

-- Until the transaction's end nobody else leases. Locks by number are no role's of their own.
CREATE FUNCTION lock_leases() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('lease_deliveries', 0))
$$;

-- Makes deliveries and leases what is due, these and those that wait, the same share for every partner and
-- of it for each of its endpoints, so that no queue is in front of another; what a partner has in flight
-- counts to its share, or slots that become free one by one would all go to whoever waits longest, and
-- that is who does not answer. No partner and no host of an endpoint has more in flight, or begun in a
-- second, than it may, whoever sends, and of what a partner may have in flight each of its open endpoints
-- has an equal part: one that does not answer keeps no slot from its others. One that turns attempts
-- away is sent no more than its pace, which its others do not feel. A partner beyond its limits waits,
-- and those that share its host; nobody else does.
--
-- `made` are events to deliver, whose inbox rows commit together with them: to each endpoint of the
-- partner that wants the type, as far as it is open; for others they are parked. An endpoint that is
-- made, opened or deleted at the same moment may not be seen: the sender looks for it
-- (releaseDeliveries). Nothing happens for an event that has a delivery: its inbox row was removed long
-- ago, the delivery was not.
--
-- A row: the caller's to send until the lease ends, and not before the commit, to `host`, null when its
-- endpoint is not open. Always a row, without an event_id when there is nothing to send. `left_of`:
-- partners of which something is due that there was no room for; at an endpoint that asks not to be
-- called yet nothing is. A delivery whose lease ended is due again: its sender died, after this or later,
-- and its webhook may have arrived.
--
-- Senders go one after the other, each until it has committed: what is counted below is then all there is,
-- because each statement of this function sees what was committed before it began, and positions in the
-- feed, in the order of `made`, are seen in their order. Whoever stands still before its commit loses its
-- transaction after 5 s and holds up the others no longer than that. What waits is leased without the
-- bodies, which are read afterwards.
--
-- To plan this takes three times as long as to do it for few, so each connection keeps a plan for calls of
-- few. It is written so that no kept plan is bad, however small the tables were when it was made: what is
-- looked up in a table is looked up row by row (OFFSET 0) or by `= ANY`, for which the settings leave an index
-- alone. Many are joined with one another, so a call that makes many is planned for that.
CREATE FUNCTION lease_deliveries(
  owner text, lease interval, rows_max integer,
  partner_in_flight integer, host_in_flight integer, partner_a_second integer, host_a_second integer,
  made_ids uuid[], made_partners text[], made_txns uuid[], made_types text[], made_bodies text[],
  made_traceparents text[]
) RETURNS TABLE (
  event_id uuid, ordinal smallint, partner_id text, endpoint_id uuid, txn_id uuid, attempt integer,
  failed_before integer, traceparent text, host text, left_of text[]
)
LANGUAGE plpgsql
SET search_path = notifier, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz;
  position_before bigint;
BEGIN
  PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  PERFORM lock_leases();
  -- Not now(), which was before the wait: those who waited would each begin what one may.
  moment := clock_timestamp();
  IF cardinality(made_ids) > 0 THEN
    position_before := webhooks.take_positions(cardinality(made_ids));
  END IF;
  IF cardinality(made_ids) > 256 THEN
    SET LOCAL plan_cache_mode = force_custom_plan;
  END IF;
  RETURN QUERY
    WITH made AS MATERIALIZED (
      SELECT t.*, position_before + t.nth_made AS position,
             coalesce(wanting.ordinal, 1)::smallint AS ordinal,
             coalesce(wanting.made_together, 1)::smallint AS made_together,
             coalesce(wanting.endpoint_id, '00000000-0000-0000-0000-000000000000') AS endpoint_id,
             coalesce(wanting.is_open, false) AS is_open, wanting.host,
             CASE
               WHEN wanting.is_open THEN 'pending'
               WHEN wanting.endpoint_id IS NULL AND EXISTS (
                 SELECT FROM partners.live_webhook_endpoints AS live
                 WHERE live.partner_id = t.partner_id OFFSET 0
               ) THEN 'unwanted'
               ELSE 'parked'
             END AS state
      FROM unnest(made_ids, made_partners, made_txns, made_types, made_bodies, made_traceparents)
        WITH ORDINALITY AS t (event_id, partner_id, txn_id, type, body, traceparent, nth_made)
      LEFT JOIN LATERAL (
        SELECT live.endpoint_id, live.is_open, live.host,
               row_number() OVER (ORDER BY live.made_at, live.endpoint_id) AS ordinal,
               count(*) OVER () AS made_together
        FROM partners.live_webhook_endpoints AS live
        WHERE live.partner_id = t.partner_id
          AND (live.event_types IS NULL OR t.type = ANY (live.event_types))
        OFFSET 0
      ) AS wanting ON true
    ), in_flight AS MATERIALIZED (
      SELECT deliveries.partner_id, deliveries.endpoint_id, lease_host FROM webhooks.deliveries
      WHERE state = 'pending' AND lease_owner IS NOT NULL AND next_attempt_at > moment
    ), waiting AS MATERIALIZED (
      SELECT queue.partner_id, queue.endpoint_id, endpoint.host, held.held, held.held_here,
             pace.a_second AS paced_at, coalesce(pace.is_paused, false) AS is_paused,
             limits.may, least(limits.may, limits.share - held.held_here, pace.may) AS may_here
      FROM (
        SELECT * FROM queues_with('pending')
        UNION
        SELECT made.partner_id, made.endpoint_id FROM made WHERE is_open
      ) AS queue
      LEFT JOIN LATERAL (
        SELECT host, url_set_at FROM partners.open_webhook_endpoints AS open
        WHERE open.endpoint_id = queue.endpoint_id OFFSET 0
      ) AS endpoint ON true
      LEFT JOIN LATERAL (
        SELECT a_second, paused_until > moment AS is_paused, pace_left(paces, (
          SELECT busy_until FROM send_rates WHERE kind = 'endpoint' AND name = paces.endpoint_id::text
        ), moment) AS may
        FROM endpoint_paces AS paces
        -- One whose URL is another one since may be another server.
        WHERE paces.endpoint_id = queue.endpoint_id AND slowed_at >= endpoint.url_set_at OFFSET 0
      ) AS pace ON true
      CROSS JOIN LATERAL (
        SELECT count(*)::integer AS held,
               count(*) FILTER (WHERE in_flight.endpoint_id = queue.endpoint_id)::integer AS held_here
        FROM in_flight WHERE in_flight.partner_id = queue.partner_id
      ) AS held
      CROSS JOIN LATERAL (
        SELECT least(
                 partner_in_flight - held.held,
                 attempts_left(
                   (SELECT busy_until FROM send_rates WHERE kind = 'partner' AND name = queue.partner_id),
                   partner_a_second, moment
                 )
               ) AS may,
               greatest(1, partner_in_flight / greatest(1, (
                 SELECT count(*) FROM partners.live_webhook_endpoints AS live
                 WHERE live.partner_id = queue.partner_id AND live.is_open
               )::integer)) AS share
        OFFSET 0
      ) AS limits
    ), stored AS MATERIALIZED (
      -- One more than there is room for says that there is more. Of an endpoint that asks not to be
      -- called there is nothing, whatever room there is: no end of an attempt changes that.
      SELECT next.event_id, next.ordinal, waiting.partner_id, waiting.endpoint_id, next.next_attempt_at,
             next.ctid AS locked
      FROM waiting
      CROSS JOIN LATERAL (
        SELECT deliveries.ctid, deliveries.event_id, deliveries.ordinal, next_attempt_at
        FROM webhooks.deliveries
        WHERE NOT waiting.is_paused
          AND state = 'pending' AND deliveries.partner_id = waiting.partner_id
          AND deliveries.endpoint_id = waiting.endpoint_id
          AND next_attempt_at <= moment
        ORDER BY next_attempt_at
        LIMIT 1 + greatest(0, least(waiting.may_here, rows_max))
        FOR UPDATE SKIP LOCKED
      ) AS next
    ), due AS MATERIALIZED (
      SELECT waiting.*, event_id, ordinal, next_attempt_at, locked, locked IS NULL AS is_made,
             row_number() OVER (
               PARTITION BY partner_id, endpoint_id ORDER BY locked IS NULL, next_attempt_at
             ) AS nth_here
      FROM (
        SELECT * FROM stored
        UNION ALL
        SELECT made.event_id, made.ordinal, made.partner_id, made.endpoint_id, moment, NULL
        FROM made WHERE is_open
      ) AS either
      JOIN waiting USING (partner_id, endpoint_id)
      WHERE NOT is_paused
    ), hosts AS MATERIALIZED (
      SELECT host,
             least(
               host_in_flight - (SELECT count(*) FROM in_flight WHERE lease_host = host),
               attempts_left(
                 (SELECT busy_until FROM send_rates WHERE kind = 'host' AND name = host), host_a_second, moment
               )
             ) AS may
      FROM (SELECT DISTINCT host FROM due) AS each_host
    ), shared AS (
      SELECT due.*,
             row_number() OVER (
               PARTITION BY partner_id ORDER BY held_here + nth_here, is_made, next_attempt_at
             ) AS nth
      FROM due
      WHERE nth_here <= may_here
    ), ranked AS (
      SELECT shared.*,
             row_number() OVER (PARTITION BY shared.host ORDER BY held + nth, next_attempt_at) AS nth_of_host
      FROM shared
      WHERE nth <= may
    ), chosen AS MATERIALIZED (
      SELECT ranked.*
      FROM ranked
      LEFT JOIN hosts ON hosts.host = ranked.host
      WHERE ranked.host IS NULL OR nth_of_host <= hosts.may
      ORDER BY held + nth, next_attempt_at
      LIMIT rows_max
    ), spent AS (
      INSERT INTO send_rates AS known (kind, name, busy_until)
      SELECT kind, name, moment + interval '1 second' * count(*) / a_second
      FROM (
        SELECT 'partner', chosen.partner_id, partner_a_second FROM chosen
        UNION ALL
        SELECT 'host', chosen.host, host_a_second FROM chosen WHERE chosen.host IS NOT NULL
        UNION ALL
        SELECT 'endpoint', chosen.endpoint_id::text, paced_at FROM chosen WHERE paced_at IS NOT NULL
      ) AS t (kind, name, a_second)
      GROUP BY kind, name, a_second
      ON CONFLICT (kind, name) DO UPDATE SET
        busy_until = greatest(known.busy_until, moment) + (excluded.busy_until - moment)
    ), taken AS (
      UPDATE webhooks.deliveries SET
        attempts = attempts + 1,
        lease_owner = owner,
        lease_host = chosen.host,
        next_attempt_at = moment + lease,
        first_attempt_at = coalesce(first_attempt_at, moment),
        first_attempt = CASE WHEN first_attempt_at IS NULL THEN attempts + 1 ELSE first_attempt END
      -- Where it lay when it was locked, and so lies still: one step for each, and no index.
      FROM chosen
      WHERE deliveries.ctid = chosen.locked
      RETURNING deliveries.*
    ), begun AS (
      INSERT INTO webhooks.deliveries (event_id, ordinal, made_together, position, partner_id, endpoint_id,
                              txn_id, body, traceparent, state, attempts, lease_owner, lease_host,
                              next_attempt_at, first_attempt_at)
      SELECT made.event_id, made.ordinal, made.made_together, made.position, made.partner_id,
             made.endpoint_id, made.txn_id, body, traceparent, made.state,
             mine::integer, CASE WHEN mine THEN owner END, CASE WHEN mine THEN made.host END,
             CASE WHEN mine THEN moment + lease ELSE moment END, CASE WHEN mine THEN moment END
      FROM (
        -- Looked up in a hash: joined by a plan that is kept, each would be compared with each.
        SELECT made.*, (made.event_id, made.ordinal) IN (
          SELECT chosen.event_id, chosen.ordinal FROM chosen WHERE is_made
        ) AS mine
        FROM made
        OFFSET 0
      ) AS made
      -- None beside those of long ago: endpoints of today are owed nothing of it. Nobody else makes any
      -- at the same time, so what is not seen is not there.
      WHERE NOT EXISTS (
        SELECT FROM webhooks.deliveries AS known WHERE known.event_id = made.event_id OFFSET 0
      )
      ORDER BY made.event_id, made.ordinal
      RETURNING *
    ), leased AS (
      SELECT * FROM taken UNION ALL SELECT * FROM begun WHERE lease_owner IS NOT NULL
    )
    SELECT leased.event_id, leased.ordinal, leased.partner_id, leased.endpoint_id, leased.txn_id, attempts,
           attempts - first_attempt, leased.traceparent, lease_host, left_over.partners
    FROM (SELECT ARRAY(
      SELECT either.partner_id
      FROM (
        SELECT due.partner_id, 1 AS counted FROM due
        UNION ALL SELECT chosen.partner_id, -1 FROM chosen
      ) AS either
      GROUP BY either.partner_id
      HAVING sum(counted) > 0
    )) AS left_over (partners)
    LEFT JOIN leased ON true;
END
$$;
-- Records what attempts came to, each for the sender that still holds the delivery: a row that was leased
-- again meanwhile, or recorded, is a later version than the one that is looked at, and is left as it is.
--
-- Whether its endpoint is open is asked here once more: a 410 Gone has just disabled it, or its partner
-- has just set or deleted it. What was not sent is no attempt that failed, leaves no trace, and has all
-- the time for attempts before it again. A kept plan, and none that is bad, as above.
--
-- An endpoint is told of only when that changes it: at the first attempt that fails, at the first that
-- is taken again, and from `disable_after` on at each that fails whose delivery has been tried for 12
-- hours (half of `disable_after` or of its time for attempts, where that is less), until one of them has
-- disabled it: one failure after a quiet week does not say that nobody is there. What such a one failed
-- to send is parked for it with its own transaction. So it is with its pace (endpoint_paces): none is
-- written of an endpoint that turns nothing away.
--
-- A delivery comes again after its pause, and not before its server asked for it, but at the end of its
-- time for attempts at the latest.
CREATE FUNCTION record_attempts(
  made_ids uuid[], made_attempts integer[], outcomes text[], statuses integer[], errors text[],
  took_mss integer[], next_in_mss bigint[], patience_mss bigint[], made_ordinals smallint[],
  disable_after interval, retry_after_mss bigint[]
) RETURNS TABLE (event_id uuid, ordinal smallint, attempt integer, state text)
LANGUAGE plpgsql
SET search_path = notifier, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH made AS MATERIALIZED (
      SELECT t.*, held.ctid AS lies, held.endpoint_id, held.first_attempt_at,
             now() + next_in_ms * interval '1 millisecond' AS backed_off_until,
             now() + retry_after_ms * interval '1 millisecond' AS asked_off_until,
             held.first_attempt_at + patience_ms * interval '1 millisecond' AS given_up_at,
             coalesce(endpoint.is_open, false) AS is_open,
             endpoint.endpoint_id IS NULL
               AND held.endpoint_id <> '00000000-0000-0000-0000-000000000000' AS is_deleted
      FROM unnest(made_ids, made_attempts, outcomes, statuses, errors, took_mss, next_in_mss,
                  patience_mss, made_ordinals, retry_after_mss)
           AS t (event_id, attempt, outcome, status, error, took_ms, next_in_ms, patience_ms, ordinal,
                 retry_after_ms)
      CROSS JOIN LATERAL (
        SELECT deliveries.ctid, deliveries.* FROM webhooks.deliveries
        WHERE deliveries.event_id = t.event_id AND deliveries.ordinal = t.ordinal
        OFFSET 0
      ) AS held
      LEFT JOIN LATERAL (
        SELECT live.endpoint_id, live.is_open FROM partners.live_webhook_endpoints AS live
        WHERE t.outcome <> 'delivered' AND live.endpoint_id = held.endpoint_id
        OFFSET 0
      ) AS endpoint ON true
      WHERE held.attempts = t.attempt AND held.state = 'pending' AND held.lease_owner IS NOT NULL
    ), came AS MATERIALIZED (
      SELECT endpoint_id, bool_or(outcome = 'delivered') AS has_taken, bool_or(is_open) AS is_open,
             count(*) FILTER (WHERE outcome = 'delivered') AS taken,
             -- When the last of those was begun that were too much; null when none was.
             max(now() - took_ms * interval '1 millisecond') FILTER (WHERE is_too_much) AS too_much_at,
             count(*) FILTER (WHERE is_too_much) AS too_much,
             max(asked_off_until) AS asked_off_until,
             bool_or(tried_since <= now() - least(interval '12 hours', disable_after / 2, patience / 2))
               AS has_insisted
      FROM (
        SELECT *, status IN (429, 502, 504) OR retry_after_ms IS NOT NULL AS is_too_much,
               CASE WHEN outcome <> 'delivered' THEN first_attempt_at END AS tried_since,
               patience_ms * interval '1 millisecond' AS patience
        FROM made
      ) AS made
      WHERE outcome <> 'not-sent'
      GROUP BY endpoint_id
    ), paced AS (
      -- In one statement and one order, or of two senders that each slow what the other quickens both
      -- would wait for ever.
      INSERT INTO endpoint_paces AS known (endpoint_id, a_second, paused_until, slowed_at)
      SELECT endpoint_id,
             CASE WHEN too_much_at IS NULL THEN 1000000
               ELSE greatest(10, taken * least(10, greatest(1, taken::float8 / too_much))) END,
             coalesce(asked_off_until, '-infinity'),
             -- Of one that takes all there is a row to change. Was that removed a moment ago, this one
             -- says what none says, and is removed as well (forgetPaces).
             CASE WHEN too_much_at IS NULL THEN '-infinity' ELSE clock_timestamp() END
      FROM came
      WHERE CASE
        WHEN too_much_at IS NOT NULL THEN is_open
        ELSE taken > 0 AND EXISTS (
          SELECT FROM endpoint_paces AS paces WHERE paces.endpoint_id = came.endpoint_id OFFSET 0
        )
      END
      ORDER BY endpoint_id
      ON CONFLICT (endpoint_id) DO UPDATE SET
        (a_second, slowed_at) = (
          SELECT CASE
                   WHEN came.too_much_at IS NULL THEN least(1000000, known.a_second + 0.1 * came.taken)
                   WHEN known.slowed_at = '-infinity' THEN excluded.a_second
                   WHEN came.too_much_at > known.slowed_at THEN greatest(0.1, known.a_second / 2)
                   ELSE known.a_second
                 END,
                 CASE WHEN came.too_much_at > known.slowed_at
                   THEN excluded.slowed_at ELSE known.slowed_at END
          FROM came WHERE came.endpoint_id = excluded.endpoint_id
        ),
        paused_until = greatest(known.paused_until, excluded.paused_until)
    ), changed AS (
      SELECT came.endpoint_id, has_taken, has_insisted
      FROM came
      LEFT JOIN LATERAL (
        SELECT failing_since FROM partners.failing_webhook_endpoints AS failing
        WHERE failing.endpoint_id = came.endpoint_id OFFSET 0
      ) AS known ON true
      WHERE CASE
        WHEN has_taken THEN failing_since IS NOT NULL
        ELSE is_open AND (failing_since IS NULL OR has_insisted AND failing_since <= now() - disable_after)
      END
    ), disabled AS MATERIALIZED (
      SELECT noted.endpoint_id
      FROM (
        SELECT array_agg(endpoint_id) AS ids, array_agg(has_taken) AS have_taken,
               array_agg(coalesce(has_insisted, false)) AS have_insisted
        FROM changed HAVING count(*) > 0
      ) AS all_changed
      CROSS JOIN LATERAL partners.note_attempts(ids, have_taken, have_insisted, disable_after)
        AS noted (endpoint_id)
    ), decided AS MATERIALIZED (
      SELECT made.*,
             -- Of one of them it is said.
             disabled.endpoint_id IS NOT NULL AND row_number() OVER (
               PARTITION BY made.endpoint_id ORDER BY outcome = 'not-sent'
             ) = 1 AS has_disabled,
        CASE
        WHEN outcome = 'delivered' THEN 'delivered'
        WHEN is_deleted THEN 'canceled'
        WHEN NOT is_open OR disabled.endpoint_id IS NOT NULL THEN 'parked'
        WHEN outcome = 'not-sent' THEN 'pending'
        WHEN backed_off_until > given_up_at THEN 'failed'
        ELSE 'pending'
      END AS end_state
      FROM made
      LEFT JOIN disabled ON disabled.endpoint_id = made.endpoint_id
    ), recorded AS (
      UPDATE webhooks.deliveries SET
        state = end_state,
        finished_at = CASE WHEN end_state IN ('delivered', 'failed', 'canceled') THEN now() END,
        next_attempt_at = CASE
          WHEN end_state = 'parked' THEN now()
          WHEN asked_off_until IS NULL THEN backed_off_until
          ELSE greatest(backed_off_until, least(asked_off_until, given_up_at))
        END,
        first_attempt_at = CASE WHEN outcome <> 'not-sent' THEN deliveries.first_attempt_at END,
        lease_owner = NULL,
        last_outcome = CASE WHEN outcome = 'not-sent' THEN last_outcome ELSE outcome END,
        last_status = CASE WHEN outcome = 'not-sent' THEN last_status ELSE status END,
        last_error = CASE WHEN outcome = 'not-sent' THEN last_error ELSE error END
      FROM decided
      -- By where it lies: were its state named here, a kept plan might walk an index of that state.
      WHERE deliveries.ctid = decided.lies
        AND deliveries.attempts = decided.attempt AND deliveries.lease_owner IS NOT NULL
      RETURNING deliveries.event_id, deliveries.ordinal, attempt, deliveries.state, outcome, status, error,
                took_ms, has_disabled
    ), logged AS (
      INSERT INTO webhooks.delivery_attempts (event_id, ordinal, attempt, status, error, took_ms)
      SELECT recorded.event_id, recorded.ordinal, recorded.attempt, status, error, took_ms
      FROM recorded
      WHERE outcome <> 'not-sent'
    )
    SELECT recorded.event_id, recorded.ordinal, recorded.attempt,
           CASE WHEN has_disabled THEN 'disabled' ELSE recorded.state END
    FROM recorded;
END
$$;
REVOKE EXECUTE ON FUNCTION attempts_left, pace_left, lock_leases, lease_deliveries, record_attempts
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION attempts_left, pace_left, lock_leases, lease_deliveries, record_attempts
TO triplock_notifier;

-- A sender makes deliveries and sets what its attempt came to, and the endpoint of what was made when
-- its partner had none. What a webhook says, to whom and under which id was fixed when the delivery was
-- made, and what is old is removed by functions alone.
GRANT USAGE ON SCHEMA webhooks TO triplock_notifier;
GRANT SELECT,
      INSERT (event_id, ordinal, made_together, position, partner_id, endpoint_id, txn_id, body, traceparent,
              state, attempts, lease_owner, lease_host, next_attempt_at, first_attempt_at),
      UPDATE (state, endpoint_id, attempts, first_attempt, next_attempt_at, lease_owner, lease_host,
              first_attempt_at, last_status, last_error, last_outcome, finished_at)
ON webhooks.deliveries TO triplock_notifier;
GRANT SELECT, INSERT ON webhooks.delivery_attempts TO triplock_notifier;
GRANT EXECUTE ON FUNCTION webhooks.take_positions, webhooks.reap_deliveries, webhooks.reap_settings
TO triplock_notifier;

-- Of partners it reads what it signs with and where it sends, and asks and answers for endpoints.
GRANT USAGE ON SCHEMA partners TO triplock_notifier;
GRANT SELECT ON partners.partners, partners.live_webhook_endpoints, partners.open_webhook_endpoints,
  partners.failing_webhook_endpoints, partners.deleted_webhook_endpoints
TO triplock_notifier;
GRANT EXECUTE ON FUNCTION partners.take_endpoint_questions, partners.verify_webhook_endpoint,
  partners.disable_webhook_endpoint, partners.note_attempts, partners.answer_webhook_test,
  partners.answer_endpoint_notice
TO triplock_notifier;
