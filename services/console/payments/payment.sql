-- One transaction, beside what `trace` reads of it (effects.ts).

-- name: row
-- The ledger's row, without what the customer has to do, which whoever has it can do.
--
-- $1 id. A row: the transaction. No row: the ledger does not know it.
SELECT txn_id AS id, kind, partner_id AS partner, idempotency_key AS key, payment_id AS "paymentId",
       requested_amount AS requested, amount, currency, state, payment_method AS method, reference,
       details, created_at AS "createdAt", settled_at AS "settledAt", failure_code AS "failureCode",
       failure_message AS "failureMessage", amount_captured AS captured,
       amount_refunded AS refunded, refund_reserved AS reserved, authorized_at AS "authorizedAt",
       action_expires_at AS "actionExpiresAt", due_at AS "dueAt",
       closed_by AS "closedBy", provider, provider_intent_id AS "intentId",
       provider_charge_id AS "chargeId", provider_refund_id AS "refundId",
       split_part(traceparent, '-', 2) AS "traceId",
       encode(fingerprint, 'hex') AS fingerprint, version
FROM ledger.transactions WHERE txn_id = $1

-- name: accepted
-- The requests of that id that the auditor saw in the topic: more than one where a key was used for
-- two.
--
-- $1 id. A row: a request.
SELECT kafka_partition AS partition, kafka_offset AS offset, first_seen AS at, kind,
       partner_id AS partner, payment_id AS "paymentId", amount, currency
FROM auditor.accepted WHERE txn_id = $1 ORDER BY first_seen LIMIT 10

-- name: followers
-- The refunds, captures and cancellations of a payment, oldest first.
--
-- $1 payment id. A row: one of them; 100 at most.
SELECT txn_id AS id, kind, amount, currency, state, failure_code AS "failureCode",
       created_at AS "createdAt", settled_at AS "settledAt"
FROM ledger.transactions WHERE payment_id = $1 ORDER BY created_at, txn_id LIMIT 100

-- name: disputes
-- What the customer of a payment wants back from the bank, oldest first.
--
-- $1 id. A row: a dispute, by the provider's id, and how it ended, if it did; 100 at most.
SELECT dispute_id AS id, amount, reason, disputes.created_at AS at,
       coalesce(ended, 'open') AS status, ended_at AS "endedAt",
       evidence_due_by AS "evidenceDueBy"
FROM ledger.disputes LEFT JOIN ledger.dispute_ends USING (txn_id, dispute_id)
WHERE txn_id = $1 ORDER BY sequence LIMIT 100

-- name: journal
-- What the provider said of it when it was listed last.
--
-- $1 id. A row: an intent, a charge, a refund.
SELECT kind, id, status, amount, currency, created_at AS "createdAt", changed_at AS "changedAt"
FROM auditor.provider_journal WHERE txn_id = $1 ORDER BY created_at, kind DESC LIMIT 50

-- name: deliveries
-- Its webhooks, with every attempt.
--
-- $1 id. A row: an attempt, or a webhook that was not attempted yet. An address is shown without
-- its query, which may hold a secret.
SELECT webhooks.delivery_name(delivery.event_id, delivery.ordinal) AS id, delivery.state,
       delivery.created_at AS "createdAt", delivery.finished_at AS "finishedAt",
       delivery.next_attempt_at AS "nextAttemptAt", delivery.body::json ->> 'type' AS type,
       split_part(endpoint.url, '?', 1) AS url, attempt.attempt, attempt.status, attempt.error,
       attempt.took_ms AS "tookMs", attempt.recorded_at AS at
FROM webhooks.deliveries AS delivery
LEFT JOIN webhooks.delivery_attempts AS attempt USING (event_id, ordinal)
LEFT JOIN partners.shown_webhook_endpoints AS endpoint
  ON endpoint.endpoint_id = delivery.endpoint_id
WHERE delivery.txn_id = $1
ORDER BY delivery.created_at, delivery.event_id, delivery.ordinal, attempt.attempt
LIMIT 500

-- name: rawForms
-- Its events as they are published, and its webhooks as they are sent.
--
-- $1 id. A row: one text.
SELECT 'event' AS what, event_id::text AS id, payload AS text, created_at AS at
FROM ledger.outbox
WHERE payment_id = coalesce((SELECT payment_id FROM ledger.transactions WHERE txn_id = $1), $1)
  AND txn_id = $1
UNION ALL
SELECT 'webhook', webhooks.delivery_name(event_id, ordinal), body, created_at
FROM webhooks.deliveries WHERE txn_id = $1
ORDER BY at, what, id
LIMIT 100
