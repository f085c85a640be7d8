-- A partner asks for all its deliveries of a window again, once per idempotency key.

-- What partners asked for and what was done about it, which is also what a repeated request is
-- answered from. It is only added to.
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

CREATE TRIGGER acts_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON redelivery_acts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

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
  RETURN QUERY
    WITH asked AS NOT MATERIALIZED (
      SELECT event_id, created_at
      FROM deliveries
      WHERE partner_id = of_partner AND created_at >= since_time AND created_at < until_then
        AND (of_state IS NULL OR state = of_state)
    ), wanted AS MATERIALIZED (
      SELECT event_id, created_at FROM asked
      ORDER BY created_at
      FETCH FIRST (rows_max) ROWS WITH TIES
    ), taken AS (
      UPDATE deliveries SET
        state = 'pending',
        first_attempt_at = NULL,
        next_attempt_at = now(),
        finished_at = NULL
      FROM wanted
      WHERE deliveries.event_id = wanted.event_id
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
