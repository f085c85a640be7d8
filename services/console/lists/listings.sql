-- What the console lists beside payments. Everything is read partner by partner, by the indexes
-- that partners' own lists have, so that the newest of all partners cost a look into each.

-- name: deliveries
-- A page of webhooks, newest first.
--
-- $1 the partner or null for all, $2 whether only those that were given up, $3 how many at most,
-- $4 to $6 time, event and number of the webhook after which the page begins, or null.
-- A row: a webhook, with its place in the list. Fewer rows than $3: the list ends here.
SELECT delivery.*
FROM partners.partners
CROSS JOIN LATERAL (
  SELECT webhooks.delivery_name(event_id, ordinal) AS id, event_id AS event, ordinal,
         created_at::text AS place, partner_id AS partner, txn_id AS about,
         body::json ->> 'type' AS type, state, attempts, last_status AS "lastStatus",
         last_outcome AS "lastOutcome", created_at AS "createdAt",
         next_attempt_at AS "nextAttemptAt", finished_at AS "finishedAt"
  FROM webhooks.deliveries
  WHERE partner_id = partners.id AND state <> 'unwanted'
    AND ($2::boolean IS NOT TRUE OR state = 'failed')
    AND ($4::timestamptz IS NULL OR (created_at, event_id, ordinal) < ($4, $5::uuid, $6::smallint))
  ORDER BY created_at DESC, event_id DESC, ordinal DESC
  LIMIT $3
) AS delivery
WHERE $1::text IS NULL OR partners.id = $1
ORDER BY delivery."createdAt" DESC, delivery.event DESC, delivery.ordinal DESC
LIMIT $3

-- name: endpoints
-- Where webhooks go, without what may be secret of an address: its query.
--
-- $1 the partner or null for all. A row: an endpoint; 500 at most.
SELECT endpoint_id AS id, partner_id AS partner, split_part(url, '?', 1) AS url, description,
       event_types AS types, verified, failing_since AS "failingSince", disabled_at AS "disabledAt",
       disabled_because AS "disabledBecause", made_at AS "madeAt",
       second_secret_until AS "secondSecretUntil"
FROM partners.shown_webhook_endpoints
WHERE $1::text IS NULL OR partner_id = $1
ORDER BY partner_id, made_at, endpoint_id
LIMIT 500

-- name: settlements
-- What partners are owed by day and currency, the newest day first.
--
-- $1 the partner or null for all, $2 and $3 the first and the last day, $4 how many at most.
-- A row: a partner's day in one currency, in minor units.
SELECT batch.*
FROM partners.partners
CROSS JOIN LATERAL (
  SELECT partner_id AS partner, day::text AS day, currency, gross, refunds, net, payments,
         refund_count AS "refundCount", coalesce(day <= closed_through, false) AS closed
  FROM partners.settlement_batches, partners.settlement_calendar
  WHERE partner_id = partners.id AND day BETWEEN $2::date AND $3::date
  ORDER BY partner_id, day DESC, currency
  LIMIT $4
) AS batch
WHERE $1::text IS NULL OR partners.id = $1
ORDER BY batch.day DESC, batch.partner, batch.currency
LIMIT $4

-- name: partners
-- Partners with what may be shown of their keys, by name.
--
-- $1 the partner after which to begin, or null. A row: a partner; 100 at most. Times of keys are
-- texts.
SELECT id, created_at AS "createdAt", card_numbers_in AS "cardNumbersIn", (
  SELECT coalesce(jsonb_agg(
    jsonb_build_object(
      'prefix', prefix, 'scope', scope, 'createdAt', k.created_at, 'expiresAt', expires_at,
      'lastUsedAt', last_used_at, 'revokedAt', revoked_at
    )
    ORDER BY k.created_at
  ), '[]')
  FROM partners.api_keys AS k WHERE partner_id = partners.id
) AS keys
FROM partners.partners
WHERE id > coalesce($1::text, '')
ORDER BY id
LIMIT 100

-- name: scheduledAudit
-- The last scheduled audit. No parameters; one row.
SELECT ended_at AS "endedAt", took_ms AS "tookMs", nullif(due_at, '-infinity') AS "dueAt", drift,
       in_flight AS "inFlight", in_flight_since AS "inFlightSince", waiting,
       waiting_since AS "waitingSince"
FROM auditor.scheduled_audit

-- name: slices
-- The newest windows of time that were compared in every layer and closed. No parameters; 20 rows
-- at most.
SELECT nth, from_time AS "from", until_time AS "until", closed_at AS "closedAt",
       encode(hash, 'hex') AS hash,
       EXISTS (SELECT FROM auditor.doubted_slices AS doubted WHERE doubted.nth = slice.nth) AS doubted
FROM auditor.audit_slices AS slice ORDER BY nth DESC LIMIT 20

-- name: losses
-- What Kafka lost before it was read, and who knows of it. No parameters; the newest 50.
SELECT lost_id AS id, topic, kafka_partition AS partition, from_offset AS "from", to_offset AS "to",
       why, found_at AS "foundAt", (
         SELECT max(done_at) FROM auditor.operator_acts
         WHERE act = 'acknowledge' AND subject = 'lost:' || lost_id
       ) AS "acknowledgedAt"
FROM auditor.accepted_lost ORDER BY lost_id DESC LIMIT 50
