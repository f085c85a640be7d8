-- What partners are to be notified of, and what became of it. Deliveries are the notifier's effect of
-- an event: they commit with the event's inbox row, one for each endpoint of the partner that wants
-- the event at that moment, and always a first one: where the partner has no endpoint it is parked
-- until there is one, and where no endpoint wants the event it says that nothing is owed. What was
-- leased with that is sent from memory after the commit, everything else by a loop of its own.
CREATE TABLE deliveries (
  -- The webhook-id on every attempt and at every endpoint.
  event_id uuid NOT NULL,
  -- Which of the event's deliveries it is, from 1, in the order in which the endpoints were made.
  ordinal smallint NOT NULL DEFAULT 1,
  -- How many were made of the event, together: what the audit counts by after some of them left.
  made_together smallint NOT NULL DEFAULT 1,
  PRIMARY KEY (event_id, ordinal),
  partner_id text NOT NULL,
  -- The nil UUID: none yet, because the partner had none, or none that wants it.
  endpoint_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  txn_id uuid NOT NULL,
  -- The webhook's body, the same bytes on every attempt.
  body text NOT NULL,
  -- The context of the trace that led to it, so that an attempt is part of that trace hours later too.
  traceparent text,
  -- A pending one is a sender's to send. A parked one waits for its endpoint to be open, and nobody
  -- tries it; a failed one was given up and waits for somebody to ask for it again. A canceled one had
  -- not been delivered when its endpoint was deleted, and is final; an unwanted one is what
  -- no endpoint wants.
  state text NOT NULL DEFAULT 'pending'
    CHECK (state IN ('pending', 'parked', 'delivered', 'failed', 'canceled', 'unwanted')),
  -- Attempts begun. It grows with every lease, so it is also the fence: a sender that was
  -- overtaken holds an older number and records nothing.
  attempts integer NOT NULL DEFAULT 0,
  -- The first one since it was made, released or asked for again last: from it the next pause grows.
  first_attempt integer NOT NULL DEFAULT 1,
  first_attempt_at timestamptz,
  -- While a sender is at work this is the end of its lease; of one that is parked or unwanted, since
  -- when.
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  lease_owner text,
  -- The host that it was leased to be sent to, which has it in flight until the lease ends.
  lease_host text,
  -- What the last recorded attempt came to. `last_error` may name what is no partner's business.
  last_outcome text CHECK (last_outcome IN ('delivered', 'refused', 'unanswered', 'unsendable')),
  last_status integer,
  last_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  CHECK ((state IN ('pending', 'parked', 'unwanted')) = (finished_at IS NULL))
);
-- What is due, endpoint by endpoint, so that one with a long queue is not read through for another.
CREATE INDEX deliveries_due ON deliveries (partner_id, endpoint_id, next_attempt_at)
  WHERE state = 'pending';
-- What is in flight, by partner and by host.
CREATE INDEX deliveries_leased ON deliveries (next_attempt_at)
  WHERE state = 'pending' AND lease_owner IS NOT NULL;
CREATE INDEX deliveries_by_transaction ON deliveries (txn_id);
-- For the audit's windows of time.
CREATE INDEX deliveries_by_time ON deliveries USING brin (created_at) WITH (autosummarize = on);
-- What is parked, endpoint by endpoint, for whoever looks for those that are open by now.
CREATE INDEX deliveries_parked ON deliveries (partner_id, endpoint_id, next_attempt_at)
  WHERE state = 'parked';
-- For the reaper, oldest first.
CREATE INDEX deliveries_delivered ON deliveries (finished_at) WHERE state = 'delivered';
CREATE INDEX deliveries_undelivered ON deliveries (coalesce(finished_at, next_attempt_at))
  WHERE state IN ('failed', 'parked', 'canceled', 'unwanted');
-- What was given up, endpoint by endpoint, for whoever looks for those that are deleted by now.
CREATE INDEX deliveries_failed ON deliveries (partner_id, endpoint_id) WHERE state = 'failed';
-- A partner's list, page by page; those that were given up are few and looked for most.
CREATE INDEX deliveries_of_partner
  ON deliveries (partner_id, created_at DESC, event_id DESC, ordinal DESC) WHERE state <> 'unwanted';
CREATE INDEX deliveries_given_up
  ON deliveries (partner_id, created_at DESC, event_id DESC, ordinal DESC) WHERE state = 'failed';

-- How people and partners name a delivery: by its event, and from the second on by its number too.
CREATE FUNCTION delivery_name(event_id uuid, ordinal smallint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN event_id || CASE WHEN ordinal = 1 THEN '' ELSE '.' || ordinal END;

-- Endpoints that have deliveries in a state: one look into an index for each of them, however long
-- their queues are. It is part of the statement that calls it, so a state that is written there, as
-- `pending`, `parked` or `failed`, finds the index of that state.
CREATE FUNCTION queues_with(of_state text) RETURNS TABLE (partner_id text, endpoint_id uuid)
LANGUAGE sql STABLE
BEGIN ATOMIC
  WITH RECURSIVE found (partner_id, endpoint_id) AS (
    (SELECT deliveries.partner_id, deliveries.endpoint_id FROM deliveries
     WHERE state = of_state
     ORDER BY deliveries.partner_id, deliveries.endpoint_id LIMIT 1)
    UNION ALL
    SELECT next.partner_id, next.endpoint_id
    FROM found
    CROSS JOIN LATERAL (
      SELECT deliveries.partner_id, deliveries.endpoint_id FROM deliveries
      WHERE state = of_state
        AND (deliveries.partner_id, deliveries.endpoint_id) > (found.partner_id, found.endpoint_id)
      ORDER BY deliveries.partner_id, deliveries.endpoint_id LIMIT 1
    ) AS next
  )
  SELECT found.partner_id, found.endpoint_id FROM found;
END;
REVOKE EXECUTE ON FUNCTION queues_with FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queues_with TO triplock_notifier;

-- How much of their rates partners and target hosts have spent: until `busy_until` the attempts that were
-- begun would have lasted, had they come one after the other at that rate (GCRA, ITU-T I.371). A row that
-- is in the past says what no row says.
CREATE TABLE send_rates (
  kind text NOT NULL CHECK (kind IN ('partner', 'host')),
  name text NOT NULL,
  busy_until timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
);
GRANT SELECT, INSERT, UPDATE (busy_until), DELETE ON send_rates TO triplock_notifier;

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
-- second, than it may, whoever sends, and of what a partner may have in flight each of its endpoints has
-- an equal part: one that does not answer keeps no slot from its others. A partner beyond its limits
-- waits, and those that share its host; nobody else does.
--
-- `made` are events to deliver, whose inbox rows commit together with them: to each endpoint of the
-- partner that wants the type, as far as it is open; for others they are parked. An endpoint that is
-- made, opened or deleted at the same moment may not be seen: the sender looks for it
-- (releaseDeliveries). Nothing happens for an event that has a delivery: its inbox row was removed long
-- ago, the delivery was not.
--
-- A row: the caller's to send until the lease ends, and not before the commit, to `host`, null when its
-- endpoint is not open. Always a row, without an event_id when there is nothing to send. `more`:
-- something is due that there was no room for. A delivery whose lease ended is due again: its sender died,
-- after this or later, and its webhook may have arrived.
--
-- Senders go one after the other, each until it has committed: what is counted below is then all there is,
-- because each statement of this function sees what was committed before it began. Whoever stands still
-- before its commit loses its transaction after 5 s and holds up the others no longer than that. What
-- waits is leased without the bodies, which are read afterwards.
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
  failed_before integer, traceparent text, host text, more boolean
)
LANGUAGE plpgsql
SET search_path = notifier, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz;
BEGIN
  PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  PERFORM lock_leases();
  -- Not now(), which was before the wait: those who waited would each begin what one may.
  moment := clock_timestamp();
  IF cardinality(made_ids) > 256 THEN
    SET LOCAL plan_cache_mode = force_custom_plan;
  END IF;
  RETURN QUERY
    WITH made AS MATERIALIZED (
      SELECT t.*, coalesce(wanting.ordinal, 1)::smallint AS ordinal,
             coalesce(wanting.made_together, 1)::smallint AS made_together,
             coalesce(wanting.endpoint_id, '00000000-0000-0000-0000-000000000000') AS endpoint_id,
             coalesce(wanting.is_open, false) AS is_open,
             CASE
               WHEN wanting.is_open THEN 'pending'
               WHEN wanting.endpoint_id IS NULL AND EXISTS (
                 SELECT FROM partners.live_webhook_endpoints AS live
                 WHERE live.partner_id = t.partner_id OFFSET 0
               ) THEN 'unwanted'
               ELSE 'parked'
             END AS state
      FROM unnest(made_ids, made_partners, made_txns, made_types, made_bodies, made_traceparents)
        AS t (event_id, partner_id, txn_id, type, body, traceparent)
      LEFT JOIN LATERAL (
        SELECT live.endpoint_id, live.is_open,
               row_number() OVER (ORDER BY live.made_at, live.endpoint_id) AS ordinal,
               count(*) OVER () AS made_together
        FROM partners.live_webhook_endpoints AS live
        WHERE live.partner_id = t.partner_id
          AND (live.event_types IS NULL OR t.type = ANY (live.event_types))
        OFFSET 0
      ) AS wanting ON true
    ), in_flight AS MATERIALIZED (
      SELECT deliveries.partner_id, deliveries.endpoint_id, lease_host FROM deliveries
      WHERE state = 'pending' AND lease_owner IS NOT NULL AND next_attempt_at > moment
    ), waiting AS MATERIALIZED (
      SELECT queue.partner_id, queue.endpoint_id, endpoint.host, held.held, held.held_here,
             limits.may, least(limits.may, limits.share - held.held_here) AS may_here
      FROM (
        SELECT * FROM queues_with('pending')
        UNION
        SELECT made.partner_id, made.endpoint_id FROM made WHERE is_open
      ) AS queue
      LEFT JOIN LATERAL (
        SELECT host FROM partners.open_webhook_endpoints AS open
        WHERE open.endpoint_id = queue.endpoint_id OFFSET 0
      ) AS endpoint ON true
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
                 WHERE live.partner_id = queue.partner_id
               )::integer)) AS share
        OFFSET 0
      ) AS limits
    ), stored AS MATERIALIZED (
      -- One more than there is room for says that there is more.
      SELECT next.event_id, next.ordinal, waiting.partner_id, waiting.endpoint_id, next.next_attempt_at,
             false AS is_made
      FROM waiting
      CROSS JOIN LATERAL (
        SELECT deliveries.event_id, deliveries.ordinal, next_attempt_at
        FROM deliveries
        WHERE state = 'pending' AND deliveries.partner_id = waiting.partner_id
          AND deliveries.endpoint_id = waiting.endpoint_id
          AND next_attempt_at <= moment
        ORDER BY next_attempt_at
        LIMIT 1 + greatest(0, least(waiting.may_here, rows_max))
        FOR UPDATE SKIP LOCKED
      ) AS next
    ), due AS MATERIALIZED (
      SELECT waiting.*, event_id, ordinal, next_attempt_at, is_made,
             row_number() OVER (
               PARTITION BY partner_id, endpoint_id ORDER BY is_made, next_attempt_at
             ) AS nth_here
      FROM (
        SELECT * FROM stored
        UNION ALL
        SELECT made.event_id, made.ordinal, made.partner_id, made.endpoint_id, moment, true
        FROM made WHERE is_open
      ) AS either
      JOIN waiting USING (partner_id, endpoint_id)
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
      ) AS t (kind, name, a_second)
      GROUP BY kind, name, a_second
      ON CONFLICT (kind, name) DO UPDATE SET
        busy_until = greatest(known.busy_until, moment) + (excluded.busy_until - moment)
    ), taken AS (
      UPDATE deliveries SET
        attempts = attempts + 1,
        lease_owner = owner,
        lease_host = chosen.host,
        next_attempt_at = moment + lease,
        first_attempt_at = coalesce(first_attempt_at, moment),
        first_attempt = CASE WHEN first_attempt_at IS NULL THEN attempts + 1 ELSE first_attempt END
      FROM chosen
      WHERE deliveries.event_id = ANY (ARRAY(SELECT chosen.event_id FROM chosen WHERE NOT is_made))
        AND deliveries.event_id = chosen.event_id AND deliveries.ordinal = chosen.ordinal
        AND NOT chosen.is_made
      RETURNING deliveries.*
    ), begun AS (
      INSERT INTO deliveries (event_id, ordinal, made_together, partner_id, endpoint_id, txn_id, body,
                              traceparent, state, attempts, lease_owner, lease_host, next_attempt_at,
                              first_attempt_at)
      SELECT made.event_id, made.ordinal, made.made_together, made.partner_id, made.endpoint_id, made.txn_id,
             body, traceparent, made.state,
             mine::integer, CASE WHEN mine THEN owner END, chosen.host,
             CASE WHEN mine THEN moment + lease ELSE moment END, CASE WHEN mine THEN moment END
      FROM made
      LEFT JOIN chosen ON is_made AND chosen.event_id = made.event_id AND chosen.ordinal = made.ordinal
      CROSS JOIN LATERAL (SELECT chosen.event_id IS NOT NULL AS mine) AS whose
      -- Only with its first is a second one made: endpoints of today are owed nothing of long ago.
      WHERE made.ordinal = 1 OR NOT EXISTS (
        SELECT FROM deliveries AS known WHERE known.event_id = made.event_id OFFSET 0
      )
      ORDER BY made.event_id, made.ordinal
      ON CONFLICT (event_id, ordinal) DO NOTHING
      RETURNING *
    ), leased AS (
      SELECT * FROM taken UNION ALL SELECT * FROM begun WHERE lease_owner IS NOT NULL
    )
    SELECT leased.event_id, leased.ordinal, leased.partner_id, leased.endpoint_id, leased.txn_id, attempts,
           attempts - first_attempt, leased.traceparent, lease_host, everything.due > everything.chosen
    FROM (SELECT (SELECT count(*) FROM due), (SELECT count(*) FROM chosen)) AS everything (due, chosen)
    LEFT JOIN leased ON true;
END
$$;
REVOKE EXECUTE ON FUNCTION attempts_left, lock_leases, lease_deliveries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION attempts_left, lock_leases, lease_deliveries TO triplock_notifier;

-- What every recorded attempt came to.
CREATE TABLE delivery_attempts (
  event_id uuid NOT NULL,
  ordinal smallint NOT NULL DEFAULT 1,
  FOREIGN KEY (event_id, ordinal) REFERENCES deliveries,
  attempt integer NOT NULL,
  -- The receiver's answer, or null when there was none.
  status integer,
  error text,
  took_ms integer NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, ordinal, attempt)
);

-- A sender makes deliveries and sets what its attempt came to, and the endpoint of what was made when
-- its partner had none. What a webhook says, to whom and under which id was fixed when the delivery was
-- made.
GRANT SELECT,
      INSERT (event_id, ordinal, made_together, partner_id, endpoint_id, txn_id, body, traceparent, state,
              attempts, lease_owner, lease_host, next_attempt_at, first_attempt_at),
      UPDATE (state, endpoint_id, attempts, first_attempt, next_attempt_at, lease_owner, lease_host,
              first_attempt_at, last_status, last_error, last_outcome, finished_at)
ON deliveries TO triplock_notifier;
GRANT SELECT, INSERT ON delivery_attempts TO triplock_notifier;
GRANT SELECT ON deliveries, delivery_attempts TO triplock_auditor;

-- Retention. Webhooks are removed a while after they were delivered, and a longer while after they were
-- given up, parked, canceled or unwanted, with their attempts; what became of them stays as sums, by
-- which the audit still balances.
CREATE TABLE deliveries_horizon (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every delivery that was removed was made before this.
  reaped_before timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO deliveries_horizon DEFAULT VALUES;

-- Deliveries that were removed, by what had become of them and what they reported: the first of each
-- event, which are as many as events, and the others.
CREATE TABLE reaped_deliveries (
  partner_id text NOT NULL,
  state text NOT NULL CHECK (state IN ('delivered', 'failed', 'parked', 'canceled', 'unwanted')),
  event_type text NOT NULL,
  currency text NOT NULL,
  deliveries bigint NOT NULL,
  -- In minor units.
  amount numeric NOT NULL,
  ordinal smallint NOT NULL DEFAULT 1,
  -- How many were made of the events whose first ones these are, but for these.
  others bigint NOT NULL DEFAULT 0,
  -- What those others come to.
  others_amount numeric NOT NULL DEFAULT 0,
  PRIMARY KEY (partner_id, ordinal, state, event_type, currency)
);

-- Removes some webhooks that were delivered longer than `keep_delivered` ago, or that came to another end
-- or were parked longer than `keep_undelivered` ago, oldest first.
--
-- Returns how many; 0 means that none is old enough. The notifier's role may delete through this
-- function only, and the function forgets nothing younger than a day. Reapers wait for one another
-- at the horizon's row.
CREATE FUNCTION reap_deliveries(
  keep_delivered interval, keep_undelivered interval, rows_max integer
) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifier, pg_temp AS $$
DECLARE
  keep interval := keep_delivered;
  doomed uuid[];
  ordinals smallint[];
BEGIN
  IF least(keep_delivered, keep_undelivered) < interval '1 day' THEN
    RAISE EXCEPTION 'deliveries are kept for a day at least, not for %',
      least(keep_delivered, keep_undelivered);
  END IF;
  PERFORM FROM deliveries_horizon FOR UPDATE;
  -- One that is being sent once more is not waited for and is no longer finished afterwards.
  SELECT array_agg(event_id), array_agg(ordinal) INTO doomed, ordinals FROM (
    SELECT event_id, ordinal FROM deliveries
    WHERE state = 'delivered' AND finished_at < now() - keep_delivered
    ORDER BY finished_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  ) AS oldest;
  IF doomed IS NULL THEN
    keep := keep_undelivered;
    SELECT array_agg(event_id), array_agg(ordinal) INTO doomed, ordinals FROM (
      SELECT event_id, ordinal FROM deliveries
      WHERE state IN ('failed', 'parked', 'canceled', 'unwanted')
        AND coalesce(finished_at, next_attempt_at) < now() - keep_undelivered
      ORDER BY coalesce(finished_at, next_attempt_at)
      LIMIT rows_max
      FOR UPDATE SKIP LOCKED
    ) AS oldest;
  END IF;
  IF doomed IS NULL THEN
    RETURN 0;
  END IF;
  DELETE FROM delivery_attempts
  WHERE event_id = ANY (doomed)
    AND (event_id, ordinal) IN (SELECT * FROM unnest(doomed, ordinals));
  WITH gone AS (
    DELETE FROM deliveries
    WHERE event_id = ANY (doomed)
      AND (event_id, ordinal) IN (SELECT * FROM unnest(doomed, ordinals))
    RETURNING partner_id, ordinal, made_together, state, body::json AS body,
              coalesce((body::json -> 'data' ->> 'amount')::numeric, 0) AS amount
  )
  INSERT INTO reaped_deliveries AS known (
    partner_id, ordinal, state, event_type, currency, deliveries, amount, others, others_amount
  )
  SELECT partner_id, ordinal, state, body ->> 'type', coalesce(body -> 'data' ->> 'currency', ''),
         count(*), sum(amount),
         coalesce(sum(made_together - 1) FILTER (WHERE ordinal = 1), 0),
         coalesce(sum((made_together - 1) * amount) FILTER (WHERE ordinal = 1), 0)
  FROM gone
  GROUP BY 1, 2, 3, 4, 5
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (partner_id, ordinal, state, event_type, currency) DO UPDATE SET
    others = known.others + excluded.others,
    others_amount = known.others_amount + excluded.others_amount,
    deliveries = known.deliveries + excluded.deliveries,
    amount = known.amount + excluded.amount;
  UPDATE deliveries_horizon SET reaped_before = greatest(reaped_before, now() - keep);
  RETURN cardinality(doomed);
END
$$;
REVOKE EXECUTE ON FUNCTION reap_deliveries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reap_deliveries TO triplock_notifier;
GRANT SELECT ON deliveries_horizon, reaped_deliveries TO triplock_auditor;

-- Partners see their own deliveries, and ask for one again, through the gateway. It sees everything
-- of a delivery but its body and its sender, and changes nothing but by the functions below.
CREATE VIEW partner_deliveries AS
SELECT event_id, ordinal, partner_id,
       nullif(endpoint_id, '00000000-0000-0000-0000-000000000000') AS endpoint_id,
       txn_id, body::json ->> 'type' AS type, state, attempts,
       last_status, nullif(last_outcome, 'delivered') AS last_error,
       created_at, first_attempt_at, next_attempt_at, finished_at,
       lease_owner IS NOT NULL AS being_sent
FROM deliveries
WHERE state <> 'unwanted';
GRANT USAGE ON SCHEMA notifier TO triplock_gateway;
GRANT SELECT ON partner_deliveries TO triplock_gateway;

-- Whether a delivery may be due again: somebody may want it, and its endpoint is not deleted.
CREATE FUNCTION may_be_sent(of_endpoint uuid, of_state text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = notifier, pg_temp
RETURN of_state <> 'unwanted' AND NOT EXISTS (
  SELECT FROM partners.deleted_webhook_endpoints WHERE endpoint_id = of_endpoint
);
REVOKE EXECUTE ON FUNCTION may_be_sent FROM PUBLIC;

-- Makes a delivery due now, under the same webhook-id and with a day of attempts before it.
--
-- Gives the delivery as it is now: one that is being sent is left alone, so is one whose endpoint was
-- deleted, and one that waited for its next attempt waits no longer, so asking twice does what asking
-- once does. Nothing when the partner has no such delivery. The gateway may change a delivery by this
-- alone: it cannot call one delivered that was not, nor one given up.
CREATE FUNCTION redeliver(of_partner text, of_event uuid, of_ordinal smallint)
RETURNS SETOF partner_deliveries
LANGUAGE sql SECURITY DEFINER SET search_path = notifier, pg_temp
BEGIN ATOMIC
  UPDATE deliveries SET
    state = 'pending',
    first_attempt_at = NULL,
    next_attempt_at = now(),
    finished_at = NULL
  WHERE partner_id = of_partner AND event_id = of_event AND ordinal = of_ordinal
    AND may_be_sent(endpoint_id, state)
    AND NOT (state = 'pending' AND lease_owner IS NOT NULL);
  SELECT * FROM partner_deliveries
  WHERE partner_id = of_partner AND event_id = of_event AND ordinal = of_ordinal;
END;
REVOKE ALL ON FUNCTION redeliver FROM PUBLIC;
GRANT EXECUTE ON FUNCTION redeliver TO triplock_gateway;

-- A partner asks for all its deliveries of a window again, once per idempotency key: what partners
-- asked for and what was done about it, which is also what a repeated request is answered from. It
-- is only added to; what is older than 90 days leaves.
CREATE TABLE redelivery_acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  partner_id text NOT NULL,
  idempotency_key text NOT NULL,
  fingerprint text NOT NULL,
  -- Deliveries made from `since` on and before `until`.
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  -- Null for any.
  state text,
  -- How many were made due.
  deliveries integer NOT NULL,
  -- When the first of the window was made that was left for another act; null when none was.
  next_since timestamptz,
  done_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT one_act_per_key UNIQUE (partner_id, idempotency_key)
);

CREATE TRIGGER acts_are_kept BEFORE UPDATE OR TRUNCATE ON redelivery_acts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER young_acts_are_kept BEFORE DELETE ON redelivery_acts
  FOR EACH ROW WHEN (OLD.done_at > now() - interval '90 days')
  EXECUTE FUNCTION ledger.refuse_change();
CREATE INDEX redeliveries_of_partner ON redelivery_acts (partner_id, done_at);
CREATE INDEX redeliveries_by_time ON redelivery_acts (done_at);

GRANT SELECT ON redelivery_acts TO triplock_auditor;

-- Makes a partner's deliveries of a window due now, as `redeliver` does one, and records it with them.
--
-- Takes them oldest first, `rows_max` of them and what was made at the same moment as the last; the
-- rest is for an act from `next_since` on. `until_time` is null for now, and `of_state` for any.
-- One row. `outcome` is `redelivered`; `replayed`, when the key's act was this request's, and the act
-- as it was recorded then; `reused`, when it was another's; `empty-window` or `wide-window`, which do
-- nothing and leave the key unused.
CREATE FUNCTION redeliver_window(
  of_partner text, key text, request_fingerprint text,
  since_time timestamptz, until_time timestamptz, of_state text, rows_max integer
) RETURNS TABLE (
  outcome text, since timestamptz, until timestamptz, state text,
  deliveries integer, next_since timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifier, pg_temp AS $$
#variable_conflict use_column
DECLARE
  until_then timestamptz := coalesce(until_time, now());
BEGIN
  -- A retry that overtakes its first attempt waits for what that one did.
  PERFORM pg_advisory_xact_lock(hashtextextended('redeliver_window ' || of_partner, 0));
  RETURN QUERY
    SELECT CASE WHEN act.fingerprint = request_fingerprint THEN 'replayed' ELSE 'reused' END,
           act.since, act.until, act.state, act.deliveries, act.next_since
    FROM redelivery_acts AS act
    WHERE act.partner_id = of_partner AND act.idempotency_key = key;
  IF FOUND THEN
    RETURN;
  END IF;
  -- After the look at the acts: what is too long ago now was not when the first attempt came. Hours,
  -- because 31 days in a time zone may be an hour more or less.
  IF since_time >= until_then OR until_then > since_time + interval '744 hours' THEN
    RETURN QUERY
      SELECT CASE WHEN since_time >= until_then THEN 'empty-window' ELSE 'wide-window' END,
             since_time, until_then, of_state, 0, NULL::timestamptz;
    RETURN;
  END IF;
  PERFORM partners.refuse_too_often(
    ARRAY(
      SELECT act.done_at FROM redelivery_acts AS act
      WHERE act.partner_id = of_partner AND act.done_at > now() - interval '1 day'
      ORDER BY act.done_at DESC
      LIMIT 1000
    ),
    1000
  );
  RETURN QUERY
    WITH asked AS NOT MATERIALIZED (
      SELECT event_id, ordinal, created_at
      FROM deliveries
      WHERE partner_id = of_partner AND created_at >= since_time AND created_at < until_then
        AND state <> 'unwanted' AND (of_state IS NULL OR state = of_state)
        AND may_be_sent(endpoint_id, state)
    ), wanted AS MATERIALIZED (
      SELECT event_id, ordinal, created_at FROM asked
      ORDER BY created_at
      FETCH FIRST (rows_max) ROWS WITH TIES
    ), taken AS (
      UPDATE deliveries SET
        state = 'pending',
        first_attempt_at = NULL,
        next_attempt_at = now(),
        finished_at = NULL
      FROM wanted
      WHERE deliveries.event_id = wanted.event_id AND deliveries.ordinal = wanted.ordinal
        -- One that is being sent is left to its sender.
        AND NOT (deliveries.state = 'pending' AND deliveries.lease_owner IS NOT NULL)
      RETURNING deliveries.event_id
    )
    INSERT INTO redelivery_acts AS act
      (partner_id, idempotency_key, fingerprint, since, until, state, deliveries, next_since)
    SELECT of_partner, key, request_fingerprint, since_time, until_then, of_state,
           (SELECT count(*) FROM taken),
           (SELECT min(asked.created_at) FROM asked
            WHERE asked.created_at > (SELECT max(wanted.created_at) FROM wanted))
    RETURNING 'redelivered', act.since, act.until, act.state, act.deliveries, act.next_since;
END
$$;
REVOKE ALL ON FUNCTION redeliver_window FROM PUBLIC;
GRANT EXECUTE ON FUNCTION redeliver_window TO triplock_gateway;

-- Removes some of what partners' settings left behind that nobody asks for any more, oldest first:
-- what partners did longer than 400 days ago, redeliveries of windows after 90, and as long after it
-- was deleted an endpoint, with what it wanted, was asked and was tested; and what an endpoint no
-- longer wants, as long after that ended.
--
-- Returns how many rows; 0 means that none is old enough. An endpoint, and what one wanted, stays
-- while any delivery is there that was made before it ended: the audit compares them. The notifier's
-- role may delete of these tables through this function only.
CREATE FUNCTION reap_settings(rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifier, pg_temp AS $$
DECLARE
  gone integer;
  reaped integer := 0;
  ended timestamptz;
  doomed uuid[];
  wishes bigint[];
BEGIN
  DELETE FROM partners.acts WHERE act_id IN (
    SELECT act_id FROM partners.acts
    WHERE done_by IN ('partner ' || partner_id, 'partner-notifier')
      AND done_at < now() - interval '400 days'
    ORDER BY done_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS gone = ROW_COUNT;
  reaped := reaped + gone;
  DELETE FROM redelivery_acts WHERE act_id IN (
    SELECT act_id FROM redelivery_acts
    WHERE done_at < now() - interval '90 days'
    ORDER BY done_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS gone = ROW_COUNT;
  reaped := reaped + gone;
  SELECT max(until), array_agg(wish_id) INTO ended, wishes FROM (
    SELECT wish_id, until FROM partners.ended_wishes
    WHERE until < now() - interval '90 days'
    ORDER BY until
    LIMIT rows_max
  ) AS oldest;
  IF wishes IS NOT NULL AND NOT EXISTS (
    SELECT FROM deliveries WHERE created_at < ended + interval '1 hour'
  ) THEN
    DELETE FROM partners.endpoint_wishes WHERE wish_id = ANY (wishes);
    GET DIAGNOSTICS gone = ROW_COUNT;
    reaped := reaped + gone;
  END IF;
  SELECT max(deleted_at), array_agg(endpoint_id) INTO ended, doomed FROM (
    SELECT endpoint_id, deleted_at FROM partners.webhook_endpoints
    WHERE deleted_at < now() - interval '90 days'
    ORDER BY deleted_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  ) AS oldest;
  IF doomed IS NOT NULL AND NOT EXISTS (
    SELECT FROM deliveries WHERE created_at < ended + interval '1 hour'
  ) THEN
    DELETE FROM partners.endpoint_wishes WHERE endpoint_id = ANY (doomed);
    DELETE FROM partners.endpoint_verifications WHERE endpoint_id = ANY (doomed);
    DELETE FROM partners.endpoint_tests WHERE endpoint_id = ANY (doomed);
    DELETE FROM partners.webhook_endpoints WHERE endpoint_id = ANY (doomed);
    GET DIAGNOSTICS gone = ROW_COUNT;
    reaped := reaped + gone;
  END IF;
  RETURN reaped;
END
$$;
REVOKE EXECUTE ON FUNCTION reap_settings FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reap_settings TO triplock_notifier;

-- Of partners it reads what it signs with and where it sends, and asks and answers for endpoints.
GRANT USAGE ON SCHEMA partners TO triplock_notifier;
GRANT SELECT ON partners.partners, partners.live_webhook_endpoints, partners.open_webhook_endpoints,
  partners.deleted_webhook_endpoints
TO triplock_notifier;
GRANT EXECUTE ON FUNCTION partners.take_endpoint_questions, partners.verify_webhook_endpoint,
  partners.disable_webhook_endpoint, partners.answer_webhook_test
TO triplock_notifier;

-- People redrive and dismiss what was given up, by the operator's role, and see what became of every
-- webhook where there is a console.
GRANT USAGE ON SCHEMA notifier TO triplock_operator;
GRANT SELECT, UPDATE (state, finished_at, first_attempt_at, next_attempt_at) ON deliveries
TO triplock_operator;
GRANT SELECT ON delivery_attempts TO triplock_operator;
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'triplock_console') THEN
    GRANT USAGE ON SCHEMA notifier TO triplock_console;
    GRANT SELECT ON ALL TABLES IN SCHEMA notifier TO triplock_console;
  END IF;
END
$$;
