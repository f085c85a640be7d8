-- What partners are to be notified of, and what became of it: whoever sends works on these rows, partners
-- and people look at them and ask for them again, and the audit compares them with the events.

-- A partner's feed has its events in the order of their positions: microseconds since 1970, of a clock
-- that never stands still or goes back. They are taken and committed by one after the other, so whoever
-- has read to one has read all before it.
CREATE SEQUENCE feed_positions;

-- The server on which positions were taken last.
CREATE TABLE feed_server (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  server text NOT NULL DEFAULT ''
);
INSERT INTO feed_server DEFAULT VALUES;

-- Takes so many positions and gives the one before the first of them. Whoever takes some holds
-- one lock from before the call until its commit, or another's that are higher could be read first.
--
-- What was read on a server that is no more may be lacking on the one that took over, and so may the
-- sequence's last number; the new one's clock may be behind, too. So it begins five minutes ahead of its
-- clock, which is as far as any server ever was: a reader who goes on from a position that nobody here
-- knows misses nothing. A transaction that fails leaves a gap.
CREATE FUNCTION take_positions(how_many integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = webhooks, pg_temp AS $$
DECLARE
  this text := ledger.this_server();
  clock bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000);
  before bigint := greatest((SELECT last_value FROM feed_positions), clock);
BEGIN
  IF how_many NOT BETWEEN 1 AND 100000 THEN
    RAISE EXCEPTION '% positions cannot be taken at once', how_many;
  END IF;
  UPDATE feed_server SET server = this WHERE server <> this;
  IF FOUND THEN
    before := greatest(before, clock + 300000000);
  END IF;
  PERFORM setval('feed_positions', before + how_many);
  RETURN before;
END
$$;
REVOKE EXECUTE ON FUNCTION take_positions FROM PUBLIC;

-- Deliveries are the effect of an event: they commit with its inbox row, one for each endpoint of the
-- partner that wants the event at that moment, and always a first one: where the partner has no endpoint
-- it is parked until there is one, and where no endpoint wants the event it says that nothing is owed.
-- First ones are also the feed.
CREATE TABLE deliveries (
  -- The webhook-id on every attempt and at every endpoint.
  event_id uuid NOT NULL,
  -- Which of the event's deliveries it is, from 1, in the order in which the endpoints were made.
  ordinal smallint NOT NULL DEFAULT 1,
  -- How many were made of the event, together: what the audit counts by after some of them left.
  made_together smallint NOT NULL DEFAULT 1,
  PRIMARY KEY (event_id, ordinal),
  -- The event's place in the feed, alike in all its deliveries.
  position bigint NOT NULL DEFAULT webhooks.take_positions(1) + 1,
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
CREATE UNIQUE INDEX deliveries_in_feed ON deliveries (partner_id, position) WHERE ordinal = 1;
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

-- What every recorded attempt came to.
CREATE TABLE delivery_attempts (
  event_id uuid NOT NULL,
  ordinal smallint NOT NULL DEFAULT 1,
  attempt integer NOT NULL,
  -- The receiver's answer, or null when there was none.
  status integer,
  error text,
  took_ms integer NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, ordinal, attempt)
);

-- Retention. Webhooks are removed a while after they were delivered, and a longer while after they were
-- given up, parked, canceled or unwanted, with their attempts; what became of them stays as sums, by
-- which the audit still balances.
CREATE TABLE deliveries_horizon (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every delivery that was removed was made before this.
  reaped_before timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO deliveries_horizon DEFAULT VALUES;

-- The last event of a partner's feed that was removed: who has read less than that has missed some.
CREATE TABLE feed_horizons (
  partner_id text PRIMARY KEY,
  reaped_position bigint NOT NULL
);

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
-- Returns how many; 0 means that none is old enough. No role may delete otherwise, and the function
-- forgets nothing younger than a day. Reapers wait for one another at the horizon's row.
CREATE FUNCTION reap_deliveries(
  keep_delivered interval, keep_undelivered interval, rows_max integer
) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = webhooks, pg_temp AS $$
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
    RETURNING partner_id, ordinal, position, made_together, state, body::json AS body,
              coalesce((body::json -> 'data' ->> 'amount')::numeric, 0) AS amount
  ), fed AS (
    INSERT INTO feed_horizons AS known (partner_id, reaped_position)
    SELECT partner_id, max(position) FROM gone WHERE ordinal = 1
    GROUP BY partner_id
    ON CONFLICT (partner_id) DO UPDATE SET
      reaped_position = greatest(known.reaped_position, excluded.reaped_position)
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

-- Partners read their feed through the gateway: what each event's webhook says, wanted or not.
CREATE VIEW partner_events AS
SELECT event_id, position, partner_id, txn_id, body FROM deliveries WHERE ordinal = 1;

-- Whether a delivery may be due again: somebody may want it, and its endpoint is not deleted.
CREATE FUNCTION may_be_sent(of_endpoint uuid, of_state text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = webhooks, pg_temp
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
LANGUAGE sql SECURITY DEFINER SET search_path = webhooks, pg_temp
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
LANGUAGE plpgsql SECURITY DEFINER SET search_path = webhooks, pg_temp AS $$
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

-- Removes some of what partners' settings left behind that nobody asks for any more, oldest first:
-- what partners did longer than 400 days ago, keys that ended then, redeliveries of windows and notices after 90, and as long after it
-- was deleted an endpoint, with what it wanted, was asked and was tested; and what an endpoint no
-- longer wants, as long after that ended.
--
-- Returns how many rows; 0 means that none is old enough. An endpoint, and what one wanted, stays
-- while any delivery is there that was made before it ended: the audit compares them.
CREATE FUNCTION reap_settings(rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = webhooks, pg_temp AS $$
DECLARE
  gone integer;
  reaped integer := 0;
  ended timestamptz;
  doomed uuid[];
  wishes bigint[];
BEGIN
  DELETE FROM partners.acts WHERE act_id IN (
    SELECT act_id FROM partners.acts
    WHERE done_by IN ('partner ' || partner_id, 'webhook sender')
      AND done_at < now() - interval '400 days'
    ORDER BY done_at
    LIMIT rows_max
    FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS gone = ROW_COUNT;
  reaped := reaped + gone;
  DELETE FROM partners.api_keys WHERE key_id IN (
    SELECT key_id FROM partners.api_keys
    WHERE least(revoked_at, expires_at) < now() - interval '400 days'
    ORDER BY least(revoked_at, expires_at)
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
  DELETE FROM partners.endpoint_notices WHERE notice_id IN (
    SELECT notice_id FROM partners.endpoint_notices
    WHERE made_at < now() - interval '90 days'
    ORDER BY made_at
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
    DELETE FROM partners.endpoint_notices WHERE endpoint_id = ANY (doomed);
    DELETE FROM partners.webhook_endpoints WHERE endpoint_id = ANY (doomed);
    GET DIAGNOSTICS gone = ROW_COUNT;
    reaped := reaped + gone;
  END IF;
  RETURN reaped;
END
$$;
REVOKE EXECUTE ON FUNCTION reap_settings FROM PUBLIC;

-- Who may do what. What whoever sends is granted, its own migrations say.
GRANT SELECT ON partner_deliveries, partner_events, feed_horizons TO triplock_gateway;
GRANT EXECUTE ON FUNCTION redeliver, redeliver_window TO triplock_gateway;
-- People redrive and dismiss what was given up, by the operator's role.
GRANT SELECT, UPDATE (state, finished_at, first_attempt_at, next_attempt_at) ON deliveries
TO triplock_operator;
GRANT SELECT ON delivery_attempts TO triplock_operator;
-- The auditor reads everything.
GRANT SELECT ON deliveries, delivery_attempts, deliveries_horizon, reaped_deliveries, redelivery_acts
TO triplock_auditor;
