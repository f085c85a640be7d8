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
-- Events of a settlement that have another id, partner, payment, number, time, amount, currency or
-- end than the ledger's, or are in another bucket than their payment's; and those of a customer who
-- has to act, of an authorisation, or who disputes, that say another time for it, another dispute
-- than the one of that number, or that something else was captured.
--
-- Nearly always the text alone shows that they agree: within a string JSON escapes every quotation
-- mark, so what is looked for here stands nowhere else. Only where it is not found the event is
-- read.
--
-- A refund that failed may have the amount that was asked for, and of no currency; where its
-- partner has no such payment it is ordered by itself.
SELECT outbox.event_id::text AS id, outbox.created_at AS since
FROM ledger.outbox
JOIN auditor.transactions_of($1, $2) AS transactions USING (txn_id)
LEFT JOIN ledger.disputes
  ON outbox.event_type = 'payment.disputed'
  AND disputes.txn_id = outbox.txn_id AND disputes.sequence = outbox.sequence
WHERE outbox.event_type <> 'payment.key_conflict'
  AND outbox.created_at >= $1 AND outbox.created_at < $2
  AND (
    outbox.payment_id <> transactions.txn_id
      AND outbox.payment_id IS DISTINCT FROM transactions.payment_id
    OR outbox.bucket <> ('x' || left(outbox.payment_id::text, 4))::bit(16)::integer % 64
    OR transactions.state IN ('failed', 'canceled')
      AND outbox.event_type NOT IN ('payment.requires_action', 'payment.authorized') AND (
      outbox.payload::json -> 'data' -> 'failure' ->> 'code',
      outbox.payload::json -> 'data' -> 'failure' ->> 'message'
    ) IS DISTINCT FROM (transactions.failure_code, coalesce(transactions.failure_message, ''))
    OR CASE
      WHEN strpos(outbox.payload, concat(
          ',"event_id":"', outbox.event_id, '","partner_id":"', transactions.partner_id,
          '","txn_id":"', transactions.txn_id, '","payment_id":"', outbox.payment_id,
          '","type":"', transactions.kind, '.', transactions.state, '","timestamp":"',
          to_char(transactions.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
          '","sequence":', outbox.sequence,
          ',"data":{"id":"', transactions.txn_id, '","object":"', transactions.kind,
          CASE WHEN transactions.payment_id IS NOT NULL
            THEN concat('","payment":"', transactions.payment_id) END,
          '","status":"', transactions.state, '","amount":', transactions.amount,
          ',"currency":"', transactions.currency, '",'
        )) > 0
      AND outbox.event_type <> 'payment.captured'
      THEN false
      ELSE (
        outbox.payload::json ->> 'event_id',
        outbox.payload::json ->> 'partner_id',
        outbox.payload::json ->> 'txn_id',
        outbox.payload::json ->> 'payment_id',
        outbox.payload::json ->> 'type',
        CASE outbox.event_type
          WHEN 'payment.requires_action'
          THEN (outbox.payload::json -> 'data' -> 'next_action' ->> 'expires_at')::timestamptz
          ELSE (outbox.payload::json ->> 'timestamp')::timestamptz
        END,
        outbox.payload::json ->> 'sequence',
        outbox.payload::json -> 'data' ->> 'id',
        outbox.payload::json -> 'data' ->> 'payment',
        outbox.payload::json -> 'data' ->> 'status',
        outbox.payload::json -> 'data' ->> 'amount',
        outbox.payload::json -> 'data' ->> 'currency',
        outbox.payload::json -> 'data' -> 'dispute' ->> 'id',
        outbox.payload::json -> 'data' -> 'dispute' ->> 'amount',
        outbox.payload::json -> 'data' -> 'dispute' ->> 'reason',
        CASE outbox.event_type
          WHEN 'payment.captured' THEN outbox.payload::json -> 'data' ->> 'amount_captured'
        END
      ) IS DISTINCT FROM (
        outbox.event_id::text,
        transactions.partner_id,
        transactions.txn_id::text,
        outbox.payment_id::text,
        outbox.event_type,
        CASE outbox.event_type
          WHEN 'payment.requires_action' THEN transactions.action_expires_at
          WHEN 'payment.disputed' THEN disputes.created_at
          WHEN 'payment.authorized' THEN transactions.authorized_at
          ELSE transactions.settled_at
        END,
        outbox.sequence::text,
        transactions.txn_id::text,
        transactions.payment_id::text,
        CASE outbox.event_type
          WHEN 'payment.requires_action' THEN 'pending'
          WHEN 'payment.authorized' THEN 'authorized'
          ELSE transactions.state
        END,
        coalesce(transactions.amount, transactions.requested_amount)::text,
        transactions.currency,
        disputes.dispute_id,
        disputes.amount::text,
        disputes.reason,
        CASE outbox.event_type WHEN 'payment.captured' THEN transactions.amount_captured::text END
      )
    END
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
