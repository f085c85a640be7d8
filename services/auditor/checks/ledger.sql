-- The ledger against what was accepted, and against itself.
--
-- A row: an offending `id`, and `since` when it has been one. No row: the check holds. checks.ts
-- says when it must, and what the window from $1 until $2 is.

-- name: ledger_not_accepted
-- Ledger rows without a request in the topic, but for those of which a person acknowledged that
-- Kafka lost it after a worker read it and before the auditor did.
WITH unasked AS MATERIALIZED (
  SELECT txn_id, created_at
  FROM auditor.settled_between($1, $2) AS transactions
  WHERE NOT EXISTS (
    SELECT FROM auditor.accepted_of($1, $2) AS accepted
    WHERE accepted.txn_id = transactions.txn_id AND accepted.fingerprint = transactions.fingerprint
  )
)
SELECT txn_id::text AS id, created_at AS since
FROM unasked
WHERE NOT EXISTS (
  SELECT FROM auditor.acknowledged
  WHERE had_by = 'ledger' AND acknowledged.txn_id = unasked.txn_id
)

-- name: ledger_unfinished
-- Transactions that are not final and are for the workers alone to finish: since they were
-- accepted, or since whom they waited for has acted.
SELECT transactions.txn_id::text AS id,
       greatest(transactions.created_at, payments.settled_at, ended.changed_at) AS since
FROM ledger.transactions
LEFT JOIN ledger.transactions AS payments ON payments.txn_id = transactions.payment_id
LEFT JOIN auditor.provider_journal AS ended
  ON ended.kind = CASE transactions.kind WHEN 'refund' THEN 'refund' ELSE 'intent' END
 AND ended.id = CASE transactions.kind
   WHEN 'refund' THEN transactions.provider_refund_id
   ELSE transactions.provider_intent_id
 END
 AND ended.status IN ('succeeded', 'failed')
WHERE transactions.state = 'pending'
  AND NOT EXISTS (
    SELECT FROM auditor.waiting_outside WHERE waiting_outside.txn_id = transactions.txn_id
  )

-- name: card_unfinished
-- Payments that their customer has yet to confirm, and the refunds behind them; how long ago the
-- time for that was over, which counts from the intent where no worker has noted it.
SELECT txn_id::text AS id, partner_id AS partner, created_at AS since,
       extract(epoch FROM now() - coalesce(action_expires_at, asked_at))::float8 * 1000 AS "overMs"
FROM auditor.waiting_outside
WHERE waits_for = 'customer'

-- name: bank_unfinished
-- Payments and refunds that a bank has yet to carry out, and the refunds behind such payments.
SELECT txn_id::text AS id, partner_id AS partner, created_at AS since
FROM auditor.waiting_outside
WHERE waits_for = 'bank'

-- name: ledger_history_changed
-- What a ledger in another store says of its rows, and their history does not allow: an amount, an
-- end or an event that was changed, a row that is gone. Empty where the ledger is in PostgreSQL,
-- which refuses.
SELECT kind || ' ' || id AS id, first_seen AS since
FROM ledger.copy_differences

-- name: ledger_differs_from_accepted
-- Ledger rows of another kind, partner, payment, amount or currency than their request, or that
-- keep something else of it. A refund has its payment's currency, and an amount that the request
-- may leave open.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM auditor.settled_between($1, $2) AS transactions
JOIN auditor.accepted_of($1, $2) AS accepted USING (txn_id, fingerprint)
WHERE (transactions.kind, transactions.partner_id, transactions.payment_id)
    IS DISTINCT FROM (accepted.kind, accepted.partner_id, accepted.payment_id)
  OR accepted.rest <> auditor.hash_rest(
    transactions.response_version, transactions.created_at, transactions.payment_method,
    transactions.reference, transactions.details
  )
  OR CASE transactions.kind
    WHEN 'refund' THEN
      transactions.requested_amount IS DISTINCT FROM accepted.amount
      OR transactions.amount <> accepted.amount
    ELSE
      (transactions.currency, transactions.amount)
        IS DISTINCT FROM (accepted.currency, accepted.amount)
  END

-- name: ledger_id_underived
-- Ledger rows whose id does not follow from kind, partner and key.
SELECT txn_id::text AS id, created_at AS since
FROM auditor.settled_between($1, $2)
WHERE txn_id <> auditor.derive_id(kind, partner_id, idempotency_key)

-- name: entry_differs_from_ledger
-- Transactions that moved other money than they say: one that succeeded moves its amount once, into
-- the partner's payable funds or, for a refund, back to where its payment's came from, and any
-- other moves nothing. A transaction has one entry at most.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM auditor.settled_between($1, $2) AS transactions
LEFT JOIN auditor.entries_of($1, $2) AS entries USING (txn_id)
LEFT JOIN LATERAL (
  SELECT * FROM ledger.entries WHERE entries.txn_id = transactions.payment_id OFFSET 0
) AS paid ON true
WHERE (entries.txn_id IS NOT NULL) <> (transactions.state = 'succeeded')
  OR entries.txn_id IS NOT NULL AND (
    entries.amount, entries.currency, entries.debit_account, entries.credit_account
  ) IS DISTINCT FROM (
    transactions.amount,
    transactions.currency,
    CASE transactions.kind
      WHEN 'refund' THEN paid.credit_account
      ELSE coalesce('provider.' || transactions.provider, transactions.partner_id) || ':clearing'
    END,
    CASE transactions.kind
      WHEN 'refund' THEN paid.debit_account
      ELSE transactions.partner_id || ':payable'
    END
  )

-- name: refunded_differs_from_refunds
-- Payments that hold another amount for refunds, or say another was given back, than their refunds
-- come to; and those of which more is given back than was paid. Also payments from before the
-- window that have a refund in it.
WITH payments AS MATERIALIZED (
  SELECT * FROM auditor.settled_between($1, $2) WHERE kind = 'payment'
  UNION
  SELECT payments.*
  FROM auditor.settled_between($1, $2) AS refunds
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.transactions WHERE txn_id = refunds.payment_id OFFSET 0
  ) AS payments
  WHERE refunds.kind = 'refund' AND payments.kind = 'payment'
)
SELECT payments.txn_id::text AS id, payments.created_at AS since
FROM payments
CROSS JOIN LATERAL (
  SELECT coalesce(sum(amount) FILTER (WHERE state <> 'failed'), 0) AS reserved,
         coalesce(sum(amount) FILTER (WHERE state = 'succeeded'), 0) AS refunded
  FROM ledger.transactions
  WHERE kind = 'refund' AND payment_id = payments.txn_id
    AND partner_id = payments.partner_id AND currency = payments.currency
) AS refunds
WHERE payments.refund_reserved <> refunds.reserved
  OR payments.amount_refunded <> refunds.refunded
  OR payments.refund_reserved > CASE payments.state WHEN 'succeeded' THEN payments.amount ELSE 0 END

-- name: refund_unfounded
-- Refunds that hold or gave back money of no payment of their partner and currency that succeeded.
SELECT refunds.txn_id::text AS id, refunds.created_at AS since
FROM auditor.settled_between($1, $2) AS refunds
WHERE refunds.kind = 'refund' AND refunds.state <> 'failed' AND refunds.amount IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM ledger.transactions AS payments
    WHERE payments.txn_id = refunds.payment_id
      AND payments.kind = 'payment'
      AND payments.state = 'succeeded'
      AND payments.partner_id = refunds.partner_id
      AND payments.currency = refunds.currency
    OFFSET 0
  )

-- name: events_differ_from_settled
-- Payments that count another number of events than they and their refunds have ends, and one more
-- where the customer had to act: the next event would have a number that was given, or leave one
-- out. Also payments from before the window that have a refund in it.
WITH payments AS MATERIALIZED (
  SELECT * FROM auditor.settled_between($1, $2) WHERE kind <> 'refund'
  UNION
  SELECT payments.*
  FROM auditor.settled_between($1, $2) AS refunds
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.transactions WHERE txn_id = refunds.payment_id OFFSET 0
  ) AS payments
  WHERE refunds.kind = 'refund' AND payments.kind <> 'refund'
)
SELECT payments.txn_id::text AS id, payments.created_at AS since
FROM payments
WHERE payments.events <> (payments.state <> 'pending')::integer
  + (payments.action_expires_at IS NOT NULL)::integer
  + (payments.disputed_at IS NOT NULL)::integer + (
  SELECT count(*)
  FROM ledger.transactions AS refunds
  WHERE refunds.kind = 'refund' AND refunds.payment_id = payments.txn_id
    AND refunds.partner_id = payments.partner_id AND refunds.state <> 'pending'
)
