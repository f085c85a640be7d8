-- What the audit looks at of webhooks, beside the auditor's own evidence; run after its migrations, in
-- its schema.

-- Of a window of time, and what the other layers have of it then.
CREATE FUNCTION deliveries_of(since timestamptz, until timestamptz)
RETURNS SETOF webhooks.deliveries
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT * FROM webhooks.deliveries
    WHERE created_at >= since - interval '1 minute' AND created_at < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT deliveries.*
  FROM (
    (SELECT event_id FROM auditor.published WHERE first_seen >= since AND first_seen < until
     UNION ALL
     SELECT event_id FROM notifier.inbox WHERE received_at >= since AND received_at < until)
    EXCEPT SELECT event_id FROM about
  ) AS others
  CROSS JOIN LATERAL (
    SELECT * FROM webhooks.deliveries WHERE deliveries.event_id = others.event_id OFFSET 0
  ) AS deliveries
$$;

-- Webhooks that wait for their partner's endpoint, and since when: `parked`, because it is not open, or
-- the partner has none; `refused`, because it fails; `failed`, because it failed to the last attempt, and
-- `dismissed` where a person decided after that attempt that it stays so.
--
-- An endpoint fails while a delivery is pending of which an attempt was recorded since it was made or
-- asked for, and of which the next one is not long overdue: that is the partner's server's doing and
-- not that of a sender that stands still. All that is pending to such an endpoint waits behind that
-- delivery, because its slots are the endpoint's own. So it waits where its server turned attempts away
-- a while ago, or asks not to be called: it is sent what it takes. What waits for one that was deleted is
-- the notifier's to cancel.
CREATE VIEW waiting_deliveries AS
WITH failing AS MATERIALIZED (
  SELECT DISTINCT partner_id, endpoint_id
  FROM webhooks.deliveries
  WHERE state = 'pending' AND first_attempt_at IS NOT NULL
    AND next_attempt_at > now() - interval '10 minutes'
    AND EXISTS (
      SELECT FROM webhooks.delivery_attempts AS made
      WHERE made.event_id = deliveries.event_id AND made.ordinal = deliveries.ordinal
        AND made.attempt >= deliveries.first_attempt
    )
    AND NOT EXISTS (
      SELECT FROM partners.deleted_webhook_endpoints AS deleted
      WHERE deleted.endpoint_id = deliveries.endpoint_id
    )
  UNION
  SELECT live.partner_id, live.endpoint_id
  FROM notifier.endpoint_paces
  JOIN partners.live_webhook_endpoints AS live USING (endpoint_id)
  WHERE greatest(slowed_at, paused_until) > now() - interval '10 minutes'
)
SELECT event_id, ordinal, partner_id, body, 'refused' AS because,
       coalesce(first_attempt_at, next_attempt_at) AS since
FROM webhooks.deliveries
JOIN failing USING (partner_id, endpoint_id)
WHERE state = 'pending'
UNION ALL
SELECT event_id, ordinal, partner_id, body, 'parked', next_attempt_at
FROM webhooks.deliveries
WHERE state = 'parked'
  AND CASE WHEN endpoint_id <> '00000000-0000-0000-0000-000000000000' THEN EXISTS (
    SELECT FROM partners.live_webhook_endpoints AS live
    WHERE live.endpoint_id = deliveries.endpoint_id AND NOT live.is_open
  ) ELSE NOT EXISTS (
    SELECT FROM partners.open_webhook_endpoints AS open
    WHERE open.partner_id = deliveries.partner_id
  ) END
UNION ALL
SELECT event_id, ordinal, partner_id, body,
       CASE WHEN EXISTS (
         SELECT FROM operator_acts
         WHERE act = 'dismiss' AND done_at >= finished_at
           AND subject = 'webhook:' || webhooks.delivery_name(event_id, ordinal)
       ) THEN 'dismissed' ELSE 'failed' END,
       finished_at
FROM webhooks.deliveries
WHERE state = 'failed' AND NOT EXISTS (
  SELECT FROM partners.deleted_webhook_endpoints AS deleted
  WHERE deleted.endpoint_id = deliveries.endpoint_id
);

-- What became of the events that the auditor saw from `since` on and before `until`: the first delivery
-- of each, delivered or not, and events whose delivery left by age. The auditor and the notifier receive an
-- event at times of their own.
CREATE FUNCTION delivered_between(since timestamptz, until timestamptz)
RETURNS TABLE (partner_id text, event_type text, currency text, amount bigint)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(deliveries.partner_id, published.partner_id),
         CASE WHEN sent IS NULL THEN published.event_type ELSE sent ->> 'type' END,
         CASE WHEN sent IS NULL THEN published.currency ELSE sent #>> '{data,currency}' END,
         CASE WHEN sent IS NULL THEN published.amount ELSE (sent #>> '{data,amount}')::bigint END
  FROM auditor.published
  LEFT JOIN auditor.deliveries_of(since, until) AS deliveries
    ON deliveries.event_id = published.event_id AND deliveries.ordinal = 1
  CROSS JOIN LATERAL (SELECT deliveries.body::json AS sent) AS webhook
  WHERE published.first_seen >= since AND published.first_seen < until
    AND (deliveries.event_id IS NOT NULL OR published.first_seen < (
      SELECT reaped_before + interval '1 hour' FROM webhooks.deliveries_horizon
    ))
$$;

-- Of those, the deliveries that are owed and not delivered, and whether they wait for their partner's
-- endpoint. What was canceled with its endpoint, or wanted by none, is owed to nobody.
CREATE VIEW undelivered AS
SELECT deliveries.event_id, deliveries.partner_id, sent ->> 'type' AS event_type,
       sent #>> '{data,currency}' AS currency, (sent #>> '{data,amount}')::bigint AS amount,
       waiting_deliveries.event_id IS NOT NULL AS waits
FROM webhooks.deliveries
JOIN auditor.published ON published.event_id = deliveries.event_id
LEFT JOIN auditor.waiting_deliveries
  ON waiting_deliveries.event_id = deliveries.event_id AND waiting_deliveries.ordinal = 1
CROSS JOIN LATERAL (SELECT deliveries.body::json AS sent) AS webhook
WHERE deliveries.ordinal = 1
  AND (deliveries.state = 'pending' OR deliveries.state = 'parked' OR deliveries.state = 'failed');

-- All of them together, with those that left by age without having been delivered.
CREATE VIEW undelivered_sums AS
SELECT partner_id, event_type, currency, waits, count(*) AS deliveries, sum(amount) AS amount
FROM auditor.undelivered
GROUP BY partner_id, event_type, currency, waits
UNION ALL
SELECT partner_id, event_type, currency, true, deliveries, amount
FROM webhooks.reaped_deliveries
WHERE ordinal = 1 AND state IN ('failed', 'parked');

-- Of the events that the auditor saw in a window those that the notifier applied. Of one that left its
-- inbox by age the cursor says it.
CREATE FUNCTION notified_in(since timestamptz, until timestamptz) RETURNS TABLE (event_id uuid)
LANGUAGE sql STABLE AS $$
  SELECT published.event_id
  FROM auditor.published
  LEFT JOIN auditor.applied_of(since, until) AS applied
    ON applied.consumer = 'partner-notifier' AND applied.event_id = published.event_id
  WHERE published.first_seen >= since AND published.first_seen < until
    AND (applied.event_id IS NOT NULL
      OR EXISTS (SELECT FROM notifier.inbox_horizons JOIN notifier.cursors USING (consumer)
                 WHERE consumer = 'partner-notifier'
                   AND published.first_seen < inbox_horizons.reaped_before + interval '1 hour'
                   AND cursors.ordering_key = published.payment_id
                   AND cursors.last_sequence >= published.sequence))
$$;

GRANT SELECT ON waiting_deliveries, undelivered, undelivered_sums TO triplock_auditor;
