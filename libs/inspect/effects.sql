-- What a transaction left in the database, layer by layer. Nothing is locked, so a payment may move
-- meanwhile.

-- name: ledger
-- $1 id. A row: the ledger's. No row: the ledger does not know it.
SELECT kind, payment_id AS "paymentId",
       partner_id AS partner, idempotency_key AS key, encode(fingerprint, 'hex') AS fingerprint,
       state, failure_code AS failure, amount, currency,
       created_at AS "createdAt", settled_at AS "settledAt", provider,
       provider_intent_id AS "intentId",
       provider_charge_id AS "chargeId", provider_refund_id AS "refundId"
FROM ledger.transactions WHERE txn_id = $1

-- name: entries
-- $1 id. A row: money that it moved.
SELECT debit_account AS debit, credit_account AS credit, amount, currency, created_at AS at
FROM ledger.entries WHERE txn_id = $1

-- name: events
-- $1 id. A row: one of its events, in order. Events are found by their payment, which they are
-- ordered by; the id alone has no index.
SELECT o.event_id AS "eventId", o.event_type AS type, o.sequence, o.created_at AS "createdAt",
       split_part(o.traceparent, '-', 2) AS "traceId", o.state, o.published_at AS "publishedAt",
       coalesce(p.copies, 0) AS copies, coalesce(p.altered, 0) AS altered,
       p.first_seen AS "firstSeenAt", p.last_seen AS "lastSeenAt",
       d.state AS delivery, coalesce(d.attempts, 0) AS attempts, d.finished_at AS "deliveredAt"
FROM ledger.outbox o
LEFT JOIN auditor.published p USING (event_id)
LEFT JOIN LATERAL (
  -- One of each endpoint that wanted it.
  SELECT string_agg(DISTINCT state, ', ') AS state, sum(attempts)::int AS attempts,
         max(finished_at) AS finished_at
  FROM webhooks.deliveries WHERE event_id = o.event_id
) d ON true
WHERE o.payment_id = coalesce((SELECT payment_id FROM ledger.transactions WHERE txn_id = $1), $1)
  AND o.txn_id = $1
ORDER BY o.sequence NULLS LAST, o.order_id

-- name: consumed
-- $1 id, $2 consumers. A row: what one of them made of one of its events: the rows that say that
-- guard 3 let it through, when it did, and whether the cursor has passed it. A key conflict, which
-- has no sequence, is passed by none.
SELECT o.event_id AS "eventId", asked.consumer, i.rows, i.received_at AS "receivedAt",
       coalesce(c.last_sequence >= o.sequence, false) AS "isPast"
FROM ledger.outbox o
CROSS JOIN unnest($2::text[]) AS asked (consumer)
CROSS JOIN LATERAL (
  SELECT count(*)::int AS rows, min(received_at) AS received_at
  FROM consumers.inbox
  WHERE inbox.event_id = o.event_id AND inbox.consumer = asked.consumer
) i
LEFT JOIN consumers.cursors c
  ON c.consumer = asked.consumer AND c.ordering_key = o.payment_id
WHERE o.payment_id = coalesce((SELECT payment_id FROM ledger.transactions WHERE txn_id = $1), $1)
  AND o.txn_id = $1

-- name: deadLetters
-- $1 id. A row: a record under its id that was set aside.
SELECT reason, kafka_partition AS partition, kafka_offset AS offset, first_seen AS at
FROM auditor.dead_letters WHERE txn_id = $1 ORDER BY first_seen

-- name: refunds
-- $1 payment id. A row: a refund, capture or cancellation of it, oldest first; 100 at most.
SELECT txn_id AS "txnId" FROM ledger.transactions
WHERE payment_id = $1 ORDER BY created_at, txn_id LIMIT 100

-- name: known
-- $1 ids. A row: the ledger has it, or a record of it was set aside.
SELECT txn_id AS "txnId" FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])
UNION
SELECT txn_id FROM auditor.dead_letters WHERE txn_id = ANY ($1::uuid[])
