-- The outbox against the ledger, and what was published against the outbox.
--
-- A row: an offending `id`, and `since` when it has been one. No row: the check holds. checks.ts
-- says when it must, and what the window from $1 until $2 is.

-- name: event_unpublished
-- Events that wait to be published.
SELECT event_id::text AS id, created_at AS since
FROM ledger.outbox
WHERE state = 'pending'

-- name: published_unseen
-- Events that are marked as published and that the auditor has not received.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
WHERE outbox.state = 'published' AND outbox.published_at >= $1 AND outbox.published_at < $2
  AND NOT EXISTS (
    SELECT FROM auditor.published_of($1, $2) AS published
    WHERE published.event_id = outbox.event_id
  )

-- name: event_differs_from_ledger
-- Final transactions, those whose customer has to act, those authorised and those disputed, without
-- their event, and such events without their transaction, or under an id that does not follow from
-- it. An event that left the outbox by age was seen by the auditor when it was published.
WITH settled AS MATERIALIZED (
  SELECT txn_id, partner_id, settled_at, kind || '.' || state AS event_type,
         auditor.derive_id('event', txn_id::text, kind || '.' || state) AS event_id
  FROM auditor.settled_between($1, $2)
  WHERE state <> 'pending'
  UNION ALL
  -- When it left the outbox, if it did, is bounded by when the payment was accepted.
  SELECT txn_id, partner_id, created_at, 'payment.requires_action',
         auditor.derive_id('event', txn_id::text, 'payment.requires_action')
  FROM auditor.settled_between($1, $2)
  WHERE action_expires_at IS NOT NULL
  UNION ALL
  SELECT txn_id, payments.partner_id, disputes.created_at, 'payment.disputed',
         auditor.derive_id('event', txn_id::text, 'payment.disputed', dispute_id)
  FROM ledger.disputes
  CROSS JOIN LATERAL (
    SELECT partner_id FROM ledger.transactions
    WHERE transactions.txn_id = disputes.txn_id OFFSET 0
  ) AS payments
  WHERE disputes.created_at >= $1 AND disputes.created_at < $2
  UNION ALL
  SELECT txn_id, partner_id, created_at, 'payment.authorized',
         auditor.derive_id('event', txn_id::text, 'payment.authorized')
  FROM auditor.settled_between($1, $2)
  WHERE authorized_at IS NOT NULL
), unmatched AS MATERIALIZED (
  -- Few, and only these are worth a closer look.
  SELECT * FROM settled
  WHERE NOT EXISTS (
      SELECT FROM auditor.outbox_of($1, $2) AS outbox
      WHERE (outbox.event_id, outbox.event_type, outbox.txn_id, outbox.partner_id)
        = (settled.event_id, settled.event_type, settled.txn_id, settled.partner_id)
    )
    AND NOT EXISTS (
      SELECT FROM auditor.published_of($1, $2) AS published
      WHERE (published.event_id, published.event_type, published.txn_id, published.partner_id)
        = (settled.event_id, settled.event_type, settled.txn_id, settled.partner_id)
        AND settled.settled_at < (
          SELECT reaped_before + interval '1 hour' FROM ledger.outbox_horizon
        )
    )
)
SELECT txn_id::text AS id, unmatched.settled_at AS since
FROM unmatched
WHERE NOT EXISTS (
    SELECT FROM ledger.outbox
    WHERE (outbox.event_id, outbox.event_type, outbox.txn_id, outbox.partner_id)
      = (unmatched.event_id, unmatched.event_type, unmatched.txn_id, unmatched.partner_id)
    OFFSET 0
  )
  AND NOT (auditor.left_outbox(txn_id, event_type, event_id) AND EXISTS (
    SELECT FROM auditor.published
    WHERE (published.event_id, published.event_type, published.txn_id, published.partner_id)
      = (unmatched.event_id, unmatched.event_type, unmatched.txn_id, unmatched.partner_id)
    OFFSET 0
  ))
UNION ALL
SELECT outbox.txn_id::text, outbox.created_at
FROM ledger.outbox
LEFT JOIN auditor.transactions_of($1, $2) AS transactions
  ON transactions.txn_id = outbox.txn_id
  AND transactions.partner_id = outbox.partner_id
  AND (
    transactions.kind || '.' || transactions.state = outbox.event_type
    OR outbox.event_type = 'payment.requires_action' AND transactions.action_expires_at IS NOT NULL
    OR outbox.event_type = 'payment.authorized' AND transactions.authorized_at IS NOT NULL
    OR outbox.event_type = 'payment.disputed'
  )
WHERE outbox.event_type <> 'payment.key_conflict'
  AND outbox.created_at >= $1 AND outbox.created_at < $2
  AND (
    transactions.txn_id IS NULL
    OR CASE outbox.event_type
      WHEN 'payment.disputed' THEN NOT EXISTS (
        SELECT FROM ledger.disputes
        WHERE disputes.txn_id = outbox.txn_id AND outbox.event_id
          = auditor.derive_id('event', outbox.txn_id::text, outbox.event_type, dispute_id)
      )
      ELSE outbox.event_id <> auditor.derive_id('event', outbox.txn_id::text, outbox.event_type)
    END
  )

-- name: event_tells_otherwise
-- Events whose bytes are not those that follow from the ledger: what is published, and sent to
-- partners, is a pure function of its rows, and is made here once more, in another language and by
-- another hand. So nothing of it can be altered unseen: of a payment as it was when the event was
-- written, which before its end is pending, and at a dispute has given back what was told by then.
--
-- What no row keeps is taken from the event: of a customer who has to act the kind of action, and
-- when that was noted, about when the event was written; and of a payment that lost its key when it
-- was accepted.
--
-- A refund that failed may have the amount that was asked for, and of no currency; where its
-- partner has no such payment it is ordered by itself.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
JOIN auditor.transactions_of($1, $2) AS booked USING (txn_id)
LEFT JOIN ledger.disputes
  ON outbox.event_type = 'payment.disputed'
  AND disputes.txn_id = outbox.txn_id AND disputes.sequence = outbox.sequence
LEFT JOIN LATERAL (
  SELECT sum(refunds.amount) AS amount
  FROM ledger.transactions AS refunds
  WHERE outbox.event_type = 'payment.disputed'
    AND refunds.payment_id = outbox.txn_id
    AND refunds.kind = 'refund' AND refunds.state = 'succeeded'
    AND coalesce(
      (SELECT sequence FROM ledger.outbox AS told
       WHERE told.payment_id = refunds.payment_id
         AND told.txn_id = refunds.txn_id AND told.event_type = 'refund.succeeded'),
      (SELECT sequence FROM auditor.published
       WHERE published.txn_id = refunds.txn_id AND published.event_type = 'refund.succeeded')
    ) < outbox.sequence
  OFFSET 0
) AS given_back ON true
CROSS JOIN LATERAL (
  SELECT booked.details::json AS details,
         outbox.event_type IN ('payment.requires_action', 'payment.authorized') AS is_step,
         -- What an event says, as text: nothing of one that was altered may be no JSON and end
         -- this.
         CASE WHEN outbox.event_type = 'payment.requires_action' THEN
           substring(outbox.payload FROM '"timestamp":"([-0-9]+T[0-9:]+\.[0-9]{3}Z)"') END AS asked_at,
         substring(
           outbox.payload FROM '"next_action":\{("type":"(?:[^"\\]|\\.)*",)"expires_at"'
         ) AS action_type
) AS its
WHERE outbox.event_type <> 'payment.key_conflict'
  AND outbox.created_at >= $1 AND outbox.created_at < $2
  AND (
    outbox.payment_id <> booked.txn_id AND outbox.payment_id IS DISTINCT FROM booked.payment_id
    OR outbox.bucket <> ('x' || left(outbox.payment_id::text, 4))::bit(16)::integer % 64
    OR asked_at NOT BETWEEN auditor.as_told(outbox.created_at - interval '1 minute')
      AND auditor.as_told(outbox.created_at + interval '1 minute')
    OR outbox.payload IS DISTINCT FROM concat(
      '{"schema":1,"event_id":"', outbox.event_id, '","partner_id":', to_json(booked.partner_id),
      ',"txn_id":"', booked.txn_id, '","payment_id":"', outbox.payment_id,
      '","type":"', CASE WHEN is_step OR outbox.event_type = 'payment.disputed'
        THEN outbox.event_type ELSE booked.kind || '.' || booked.state END,
      '","timestamp":"', CASE outbox.event_type
        WHEN 'payment.requires_action' THEN asked_at
        WHEN 'payment.authorized' THEN auditor.as_told(booked.authorized_at)
        WHEN 'payment.disputed' THEN auditor.as_told(disputes.created_at)
        ELSE auditor.as_told(booked.settled_at)
      END, '","sequence":', outbox.sequence,
      ',"data":{"id":"', booked.txn_id, '","object":"', booked.kind,
      '","payment":"' || booked.payment_id,
      '","status":"', CASE outbox.event_type
        WHEN 'payment.requires_action' THEN 'pending'
        WHEN 'payment.authorized' THEN 'authorized'
        ELSE booked.state
      END, '"', ',"amount":' || coalesce(booked.amount, booked.requested_amount),
      ',"currency":"' || booked.currency || '"',
      ',"payment_method":' || to_json(booked.payment_method)::text,
      ',"return_url":' || to_json(its.details ->> 'returnUrl')::text,
      ',"capture_method":' || to_json(its.details ->> 'captureMethod')::text,
      ',"reference":' || to_json(booked.reference)::text,
      ',"description":' || to_json(its.details ->> 'description')::text,
      ',"metadata":' || auditor.sorted_metadata(its.details -> 'metadata'),
      ',"reason":' || to_json(its.details ->> 'reason')::text,
      CASE WHEN its.details ->> 'captureMethod' IS NOT NULL THEN
        ',"amount_captured":' || CASE WHEN is_step THEN 0 ELSE coalesce(booked.amount_captured, 0) END
      END,
      CASE WHEN booked.kind = 'payment' THEN ',"amount_refunded":' || coalesce(given_back.amount, 0) END,
      ',"created_at":"', auditor.as_told(booked.created_at), '","settled_at":',
      CASE WHEN is_step THEN 'null' ELSE '"' || auditor.as_told(booked.settled_at) || '"' END,
      CASE WHEN NOT is_step THEN concat(
        ',"failure":{"code":' || to_json(booked.failure_code)::text
          || ',"message":' || to_json(coalesce(booked.failure_message, ''))::text || '}',
        CASE WHEN booked.payment_id IS NULL THEN ',"provider":{"name":' || to_json(booked.provider)::text
          || ',"charge_id":' || to_json(booked.provider_charge_id)::text || '}' END
      ) END,
      CASE outbox.event_type
        WHEN 'payment.requires_action' THEN concat(
          ',"next_action":{', action_type, '"expires_at":"', auditor.as_told(booked.action_expires_at), '"}'
        )
        WHEN 'payment.disputed' THEN concat(
          ',"dispute":{"id":', to_json(disputes.dispute_id), ',"amount":', disputes.amount,
          ',"reason":', to_json(disputes.reason), '}'
        )
      END,
      '}}'
    )
  )
UNION ALL
SELECT outbox.event_id::text, outbox.created_at
FROM ledger.outbox
CROSS JOIN LATERAL (
  SELECT * FROM auditor.accepted
  WHERE accepted.txn_id = outbox.txn_id AND outbox.event_id = auditor.derive_id(
    'event', outbox.txn_id::text, outbox.event_type, encode(accepted.fingerprint, 'hex')
  )
  OFFSET 0
) AS loser
CROSS JOIN LATERAL (
  SELECT substring(outbox.payload FROM '"timestamp":"([^"]*)"') AS accepted_at,
         substring(outbox.payload FROM ',("reason":"(?:[^"\\]|\\.)*")\}\}$') AS reason
) AS said
WHERE outbox.event_type = 'payment.key_conflict'
  AND outbox.created_at >= $1 AND outbox.created_at < $2
  AND (
    outbox.payload IS DISTINCT FROM concat(
      '{"schema":1,"event_id":"', outbox.event_id, '","partner_id":', to_json(loser.partner_id),
      ',"txn_id":"', loser.txn_id,
      '","payment_id":"', coalesce(loser.payment_id, loser.txn_id),
      '","type":"payment.key_conflict","timestamp":"', accepted_at,
      '","data":{"id":"', loser.txn_id, '","object":"', loser.kind,
      '","payment":"' || loser.payment_id,
      '","fingerprint":"', encode(loser.fingerprint, 'hex'), '"', ',"amount":' || loser.amount,
      CASE WHEN loser.payment_id IS NULL THEN ',"currency":"' || loser.currency || '"' END,
      ',' || said.reason, '}}'
    )
    OR auditor.time_told(accepted_at) IS NULL
    -- What follows a payment has nothing else in its hash.
    OR loser.payment_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM generate_series(1, 9) AS response_version
      WHERE loser.rest = auditor.hash_rest(
        response_version, auditor.time_told(accepted_at), NULL, NULL, '{' || said.reason || '}'
      )
    )
  )

-- name: sequence_has_a_gap
-- Payments whose events, those of what follows them included, are not numbered 1, 2, 3, … without a
-- gap or a repeat. Those that left the outbox by age are known to the auditor from when they were
-- published.
WITH broken AS MATERIALIZED (
  SELECT payment_id, since, newest
  FROM (
    SELECT DISTINCT payment_id FROM ledger.outbox WHERE created_at >= $1 AND created_at < $2
  ) AS touched
  CROSS JOIN LATERAL (
    SELECT min(created_at) AS since, max(sequence) AS newest, count(*) AS events,
           count(DISTINCT sequence) AS numbers
    FROM ledger.outbox
    WHERE outbox.payment_id = touched.payment_id AND sequence IS NOT NULL
  ) AS told
  WHERE newest <> events OR numbers <> events
), numbered AS (
  SELECT broken.payment_id, outbox.sequence
  FROM broken
  CROSS JOIN LATERAL (
    SELECT sequence FROM ledger.outbox
    WHERE outbox.payment_id = broken.payment_id AND sequence IS NOT NULL OFFSET 0
  ) AS outbox
  UNION ALL
  SELECT broken.payment_id, published.sequence
  FROM broken
  CROSS JOIN LATERAL (
    SELECT broken.payment_id AS txn_id
    UNION ALL
    SELECT txn_id FROM ledger.transactions
    WHERE transactions.payment_id = broken.payment_id
  ) AS told_of
  CROSS JOIN LATERAL (
    SELECT * FROM auditor.published WHERE published.txn_id = told_of.txn_id OFFSET 0
  ) AS published
  WHERE published.payment_id = broken.payment_id AND published.sequence IS NOT NULL
    AND NOT EXISTS (
      SELECT FROM ledger.outbox WHERE outbox.event_id = published.event_id OFFSET 0
    )
    AND auditor.left_outbox(published.txn_id, event_type, event_id)
)
SELECT payment_id::text AS id, since
FROM broken JOIN numbered USING (payment_id)
GROUP BY payment_id, since, newest
HAVING count(*) <> newest OR count(DISTINCT sequence) <> newest

-- name: event_parked
-- Events that can never be published, and those that wait behind them.
SELECT event_id::text AS id, created_at AS since
FROM ledger.outbox
WHERE state = 'parked'

-- name: published_unfounded
-- Events that were published, are not in the outbox, and did not leave it by age: somebody else
-- speaks in our name.
SELECT event_id::text AS id, first_seen AS since
FROM auditor.published
WHERE first_seen >= $1 AND first_seen < $2
  AND NOT EXISTS (
    SELECT FROM auditor.known_to_outbox($1, $2) AS known WHERE known.event_id = published.event_id
  )

-- name: published_differs_from_outbox
-- Events that were published with other bytes than the outbox holds, or as another one's.
SELECT outbox.event_id::text AS id, published.first_seen AS since
FROM auditor.outbox_of($1, $2) AS outbox
JOIN auditor.published USING (event_id)
WHERE published.first_seen >= $1 AND published.first_seen < $2
  AND (
    published.payload_hash <> encode(sha256(convert_to(outbox.payload, 'UTF8')), 'hex')
    OR (
      published.event_type, published.txn_id, published.payment_id, published.partner_id,
      published.sequence
    ) IS DISTINCT FROM (
      outbox.event_type, outbox.txn_id, outbox.payment_id, outbox.partner_id, outbox.sequence
    )
  )

-- name: published_differs_from_ledger
-- Events of a settlement that were published with another end, partner, amount or currency than the
-- ledger's, also those that have left the outbox.
SELECT published.event_id::text AS id, published.first_seen AS since
FROM auditor.published
JOIN auditor.transactions_of($1, $2) AS transactions USING (txn_id)
WHERE published.event_type <> 'payment.key_conflict'
  AND published.first_seen >= $1 AND published.first_seen < $2
  AND (published.event_type, published.partner_id, published.amount, published.currency)
    IS DISTINCT FROM (
      CASE
        WHEN published.event_type = 'payment.requires_action'
          AND transactions.action_expires_at IS NOT NULL
        THEN published.event_type
        WHEN published.event_type = 'payment.disputed' AND EXISTS (
          SELECT FROM ledger.disputes
          WHERE disputes.txn_id = published.txn_id AND published.event_id
            = auditor.derive_id('event', published.txn_id::text, 'payment.disputed', dispute_id)
        )
        THEN published.event_type
        WHEN published.event_type = 'payment.authorized' AND transactions.authorized_at IS NOT NULL
        THEN published.event_type
        ELSE transactions.kind || '.' || transactions.state
      END,
      transactions.partner_id,
      coalesce(transactions.amount, transactions.requested_amount),
      transactions.currency
    )

-- name: published_altered
-- Events with copies of other bytes.
SELECT event_id::text AS id, first_seen AS since
FROM auditor.published
WHERE altered > 0
