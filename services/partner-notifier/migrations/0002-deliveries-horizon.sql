-- Delivered webhooks leave after a while, with their attempts; what they came to stays as sums, by
-- which the audit still balances. One that was given up stays until a person has seen to it.

CREATE TABLE deliveries_horizon (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Every delivery that left was finished before this.
  reaped_before timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO deliveries_horizon DEFAULT VALUES;

-- Deliveries that left, by what they told.
CREATE TABLE reaped_deliveries (
  partner_id text NOT NULL,
  event_type text NOT NULL,
  currency text NOT NULL,
  deliveries bigint NOT NULL,
  -- In minor units.
  amount numeric NOT NULL,
  PRIMARY KEY (partner_id, event_type, currency)
);

CREATE INDEX deliveries_delivered ON deliveries (finished_at) WHERE state = 'delivered';

-- Takes some webhooks out that were delivered longer than `keep` ago, oldest first.
--
-- Returns how many; 0 means that none is old enough. The notifier's role may delete through this
-- function only, and the function forgets nothing younger than a day. Reapers wait for one another
-- at the horizon's row.
CREATE FUNCTION reap_deliveries(keep interval, rows_max integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifier, pg_temp AS $$
DECLARE
  horizon timestamptz := now() - keep;
  doomed uuid[];
BEGIN
  IF keep < interval '1 day' THEN
    RAISE EXCEPTION 'deliveries are kept for a day at least, not for %', keep;
  END IF;
  PERFORM FROM deliveries_horizon FOR UPDATE;
  SELECT array_agg(event_id) INTO doomed FROM (
    SELECT event_id FROM deliveries
    WHERE state = 'delivered' AND finished_at < horizon
    ORDER BY finished_at
    LIMIT rows_max
    -- One that is being sent once more is not waited for and is no longer delivered afterwards.
    FOR UPDATE SKIP LOCKED
  ) AS oldest;
  IF doomed IS NULL THEN
    RETURN 0;
  END IF;
  DELETE FROM delivery_attempts WHERE event_id = ANY (doomed);
  WITH gone AS (
    DELETE FROM deliveries WHERE event_id = ANY (doomed) RETURNING partner_id, body::json AS body
  )
  INSERT INTO reaped_deliveries AS known (partner_id, event_type, currency, deliveries, amount)
  SELECT partner_id, body ->> 'type', coalesce(body -> 'data' ->> 'currency', ''),
         count(*), coalesce(sum((body -> 'data' ->> 'amount')::numeric), 0)
  FROM gone
  GROUP BY 1, 2, 3
  ORDER BY 1, 2, 3
  ON CONFLICT (partner_id, event_type, currency) DO UPDATE SET
    deliveries = known.deliveries + excluded.deliveries,
    amount = known.amount + excluded.amount;
  UPDATE deliveries_horizon SET reaped_before = greatest(reaped_before, horizon);
  RETURN cardinality(doomed);
END
$$;

REVOKE EXECUTE ON FUNCTION reap_deliveries(interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reap_deliveries(interval, integer) TO triplock_notifier;
GRANT SELECT ON deliveries_horizon, reaped_deliveries TO triplock_auditor;
