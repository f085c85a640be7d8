-- What the console reads to list and to find payments. Each statement takes its rows from an index
-- that is there for others: the console adds none, so that posting a payment costs what it did.

-- name: listAll
-- One page of all partners' payments, newest first.
--
-- $1 how many rows at most, $2 and $3 the time and id of the payment after which the page begins,
-- $4 a state, $5 whether it was authorised, $6 made from then on, $7 made before then; $2 to $7
-- null where not wished for.
-- A row: a payment. Fewer rows than $1: the list ends here.
--
-- There is no index of all payments by time, which every post would have to write: those of each
-- partner are merged. Only the partners with the newest payments can be on the page, so that many
-- partners cost a look into the index each and no more. Sent unprepared, so that the planner sees
-- which wishes are null.
WITH newest AS MATERIALIZED (
  SELECT partners.id
  FROM partners.partners
  CROSS JOIN LATERAL (
    SELECT created_at, txn_id FROM ledger.transactions
    WHERE partner_id = partners.id AND kind = 'payment'
      AND ($2::timestamptz IS NULL OR (created_at, txn_id) < ($2, $3::uuid))
      AND ($4::text IS NULL OR state = $4)
      AND ($5::boolean IS NULL OR (authorized_at IS NOT NULL) = $5)
      AND ($6::timestamptz IS NULL OR created_at >= $6)
      AND ($7::timestamptz IS NULL OR created_at < $7)
    ORDER BY created_at DESC, txn_id DESC
    LIMIT 1
  ) AS first
  ORDER BY first.created_at DESC, first.txn_id DESC
  LIMIT $1
)
SELECT payment.*
FROM newest
CROSS JOIN LATERAL (
  SELECT txn_id AS id, partner_id AS partner, idempotency_key AS key, amount, currency, state,
         authorized_at IS NOT NULL AS authorized, payment_method AS method, reference,
         created_at AS "createdAt", settled_at AS "settledAt", amount_refunded AS refunded
  FROM ledger.transactions
  WHERE partner_id = newest.id AND kind = 'payment'
    AND ($2::timestamptz IS NULL OR (created_at, txn_id) < ($2, $3::uuid))
    AND ($4::text IS NULL OR state = $4)
    AND ($5::boolean IS NULL OR (authorized_at IS NOT NULL) = $5)
    AND ($6::timestamptz IS NULL OR created_at >= $6)
    AND ($7::timestamptz IS NULL OR created_at < $7)
  ORDER BY created_at DESC, txn_id DESC
  LIMIT $1
) AS payment
ORDER BY "createdAt" DESC, id DESC
LIMIT $1

-- name: listOfPartner
-- One page of a partner's payments, newest first, and how far was looked for it.
--
-- $1 how many rows at most, $2 to $7 as above, $8 the partner, $9 a reference, $10 a currency, $11
-- and $12 the least and the greatest amount, minor units; $13 how many to look through at most:
-- more than $1 where currency or amount are wished for, which no index has.
-- A row: a payment, or nothing but how far was looked where none of them fits. No row: there are no
-- more. Fewer than $13 were looked through: the list ends here.
WITH looked AS MATERIALIZED (
  SELECT txn_id AS id, partner_id AS partner, idempotency_key AS key, amount, currency, state,
         authorized_at IS NOT NULL AS authorized, payment_method AS method, reference,
         created_at AS "createdAt", settled_at AS "settledAt", amount_refunded AS refunded
  FROM ledger.transactions
  WHERE partner_id = $8 AND kind = 'payment'
    AND ($2::timestamptz IS NULL OR (created_at, txn_id) < ($2, $3::uuid))
    AND ($4::text IS NULL OR state = $4)
    AND ($5::boolean IS NULL OR (authorized_at IS NOT NULL) = $5)
    AND ($6::timestamptz IS NULL OR created_at >= $6)
    AND ($7::timestamptz IS NULL OR created_at < $7)
    AND ($9::text IS NULL OR reference = $9)
  ORDER BY created_at DESC, txn_id DESC
  LIMIT $13
), horizon AS (
  SELECT count(*) OVER () AS looked, id AS "untilId", "createdAt" AS "until"
  FROM looked ORDER BY "createdAt", id LIMIT 1
), found AS (
  SELECT * FROM looked
  WHERE ($10::text IS NULL OR currency = $10)
    AND ($11::bigint IS NULL OR amount >= $11)
    AND ($12::bigint IS NULL OR amount <= $12)
  ORDER BY "createdAt" DESC, id DESC
  LIMIT $1
)
SELECT horizon.*, found.* FROM horizon LEFT JOIN found ON true
ORDER BY found."createdAt" DESC, found.id DESC

-- name: partners
-- All partners, by name. No parameters.
SELECT id FROM partners.partners ORDER BY id LIMIT 10000

-- name: byIds
-- Which of these ids are transactions.
--
-- $1 ids. A row: one that is, also one of which only its record was seen.
SELECT txn_id AS id, kind, partner_id AS partner, amount, currency, state, created_at AS "createdAt"
FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])
UNION ALL
SELECT txn_id, kind, partner_id, amount, currency, 'accepted', first_seen
FROM auditor.accepted
WHERE txn_id = ANY ($1::uuid[])
  AND NOT EXISTS (SELECT FROM ledger.transactions WHERE transactions.txn_id = accepted.txn_id)

-- name: byEvent
-- What an event, or a webhook, is about.
--
-- $1 event id, which is the webhook-id too. A row: a transaction's id.
SELECT txn_id AS id FROM ledger.outbox WHERE event_id = $1
UNION SELECT txn_id FROM auditor.published WHERE event_id = $1
UNION SELECT txn_id FROM webhooks.deliveries WHERE event_id = $1

-- name: byProviderId
-- Whose an id of the provider's is: an intent's, a charge's, a refund's or a dispute's.
--
-- $1 the id. A row: a transaction's id.
SELECT txn_id AS id FROM ledger.transactions WHERE provider_intent_id = $1
UNION
SELECT txn_id FROM ledger.disputes WHERE dispute_id = $1
UNION
SELECT coalesce(journal.txn_id, payment.txn_id)
FROM auditor.provider_journal AS journal
LEFT JOIN ledger.transactions AS payment ON payment.provider_intent_id = journal.intent_id
WHERE journal.kind IN ('intent', 'charge', 'refund', 'dispute') AND journal.id = $1
  AND coalesce(journal.txn_id, payment.txn_id) IS NOT NULL

-- name: byReference
-- Payments with a reference, whosever they are, newest first.
--
-- $1 the reference, $2 how many at most. A row: a transaction's id.
SELECT payment.txn_id AS id
FROM partners.partners
CROSS JOIN LATERAL (
  SELECT txn_id, created_at FROM ledger.transactions
  WHERE partner_id = partners.id AND kind = 'payment' AND reference = $1
  ORDER BY created_at DESC, txn_id DESC
  LIMIT $2
) AS payment
ORDER BY payment.created_at DESC, payment.txn_id DESC
LIMIT $2
