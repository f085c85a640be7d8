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
       greatest(
         transactions.created_at, payments.settled_at, payments.authorized_at, ended.changed_at
       ) AS since
FROM ledger.transactions
LEFT JOIN ledger.transactions AS payments ON payments.txn_id = transactions.payment_id
LEFT JOIN auditor.provider_journal AS ended
  ON ended.kind = CASE transactions.kind WHEN 'refund' THEN 'refund' ELSE 'intent' END
 AND ended.id = CASE transactions.kind
   WHEN 'refund' THEN transactions.provider_refund_id
   ELSE coalesce(transactions.provider_intent_id, payments.provider_intent_id)
 END
 AND ended.provider = coalesce(transactions.provider, payments.provider)
 AND ended.status IN ('succeeded', 'failed')
WHERE transactions.state = 'pending'
  AND NOT EXISTS (
    SELECT FROM auditor.waiting_outside WHERE waiting_outside.txn_id = transactions.txn_id
  )

-- name: told_otherwise
-- Events that partners were told before the database was set back, and whose transactions are not
-- as they say: their records are still to be read again, or are gone, or the provider says
-- otherwise.
SELECT event_id::text AS id, coalesce(
         (SELECT done_at FROM ledger.rewinds ORDER BY done_at DESC LIMIT 1), happened_at
       ) AS since
FROM ledger.told
WHERE adopted_at IS NULL

-- name: card_unfinished
-- Payments that their customer has yet to confirm, and the refunds behind them; how long ago the
-- time for that was over, which counts from the intent where no worker has noted it.
SELECT txn_id::text AS id, partner_id AS partner, created_at AS since,
       extract(epoch FROM now() - coalesce(action_expires_at, asked_at))::float8 * 1000 AS "overMs"
FROM auditor.waiting_outside
WHERE waits_for = 'customer'

-- name: partner_unfinished
-- Payments that are authorised and that their partner has yet to capture or cancel, and the refunds
-- behind them.
SELECT txn_id::text AS id, partner_id AS partner, created_at AS since
FROM auditor.waiting_outside
WHERE waits_for = 'partner'

-- name: bank_unfinished
-- Payments and refunds that a bank has yet to carry out, and the refunds behind such payments.
SELECT txn_id::text AS id, partner_id AS partner, created_at AS since
FROM auditor.waiting_outside
WHERE waits_for = 'bank'

-- name: ledger_history_changed
-- What a ledger in another store says of its rows, and their history does not allow: an amount, an
-- end, a dispute or an event that was changed, a row that is gone. Empty where the ledger is in
-- PostgreSQL, which refuses.
SELECT kind || ' ' || id AS id, first_seen AS since
FROM ledger.copy_differences

-- name: ledger_differs_from_accepted
-- Ledger rows of another kind, partner, payment, amount or currency than their request, or that
-- keep something else of it. What follows a payment has its currency, and an amount that the
-- request may leave open; a cancellation never asks for one.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM auditor.settled_between($1, $2) AS transactions
JOIN auditor.accepted_of($1, $2) AS accepted USING (txn_id, fingerprint)
WHERE (transactions.kind, transactions.partner_id, transactions.payment_id)
    IS DISTINCT FROM (accepted.kind, accepted.partner_id, accepted.payment_id)
  OR accepted.rest <> auditor.hash_rest(
    transactions.response_version, transactions.created_at, transactions.payment_method,
    transactions.reference, transactions.details
  )
  OR CASE
    WHEN transactions.payment_id IS NOT NULL THEN
      transactions.requested_amount IS DISTINCT FROM accepted.amount
      OR transactions.amount <> accepted.amount
    ELSE
      (transactions.currency, transactions.amount)
        IS DISTINCT FROM (accepted.currency, accepted.amount)
  END

-- name: ledger_id_underived
-- Ledger rows whose id does not follow from kind, partner and key; and disputes whose id for
-- partners does not follow from provider, intent and the provider's id, or that are another
-- partner's than their payment.
SELECT txn_id::text AS id, created_at AS since
FROM auditor.settled_between($1, $2)
WHERE txn_id <> auditor.derive_id(kind, partner_id, idempotency_key)
UNION ALL
SELECT disputes.dispute_id, disputes.created_at
FROM ledger.disputes
CROSS JOIN LATERAL (
  SELECT partner_id, provider, provider_intent_id FROM ledger.transactions
  WHERE transactions.txn_id = disputes.txn_id OFFSET 0
) AS payments
WHERE disputes.created_at >= $1 AND disputes.created_at < $2
  AND (
    disputes.partner_id <> payments.partner_id
    OR disputes.id <> auditor.derive_id(
      'dispute', payments.provider, payments.provider_intent_id, disputes.dispute_id
    )
  )

-- name: entry_differs_from_ledger
-- Transactions that moved other money than they say: one that succeeded moves its amount once,
-- between the accounts that its kind says (kinds), unless that says none; any other moves nothing.
-- A transaction has one entry at most.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM auditor.settled_between($1, $2) AS transactions
LEFT JOIN auditor.entries_of($1, $2) AS entries USING (txn_id)
LEFT JOIN LATERAL (
  SELECT * FROM ledger.transactions AS found WHERE found.txn_id = transactions.payment_id OFFSET 0
) AS payments ON true
LEFT JOIN LATERAL (
  SELECT * FROM ledger.entries
  WHERE entries.txn_id = coalesce(payments.closed_by, transactions.payment_id) OFFSET 0
) AS paid ON true
WHERE (entries.txn_id IS NOT NULL) <> (
    transactions.state = 'succeeded'
    -- --- kinds that move nothing, by npm run generate
    AND transactions.kind <> 'cancellation'
    -- --- end of kinds that move nothing
  )
  OR entries.txn_id IS NOT NULL AND (
    entries.amount, entries.currency, entries.debit_account, entries.credit_account
  ) IS DISTINCT FROM (
    transactions.amount,
    transactions.currency,
    CASE transactions.kind
      -- --- debits, by npm run generate
      WHEN 'payment' THEN coalesce('provider.' || transactions.provider, transactions.partner_id) || ':clearing'
      WHEN 'refund' THEN paid.credit_account
      WHEN 'capture' THEN
        coalesce(
          'provider.' || coalesce(transactions.provider, payments.provider), transactions.partner_id
        ) || ':clearing'
      -- --- end of debits
    END,
    CASE transactions.kind
      -- --- credits, by npm run generate
      WHEN 'payment' THEN transactions.partner_id || ':payable'
      WHEN 'refund' THEN paid.debit_account
      WHEN 'capture' THEN transactions.partner_id || ':payable'
      -- --- end of credits
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
  FROM (
    SELECT * FROM ledger.transactions WHERE payment_id = payments.txn_id OFFSET 0
  ) AS of_payment
  WHERE kind = 'refund'
    AND partner_id = payments.partner_id AND currency = payments.currency
) AS refunds
WHERE payments.refund_reserved <> refunds.reserved
  OR payments.amount_refunded <> refunds.refunded
  OR payments.refund_reserved > CASE payments.state
    WHEN 'succeeded' THEN payments.amount
    WHEN 'captured' THEN payments.amount_captured
    ELSE 0
  END

-- name: captured_differs_from_captures
-- Payments that were captured or cancelled otherwise than their captures and cancellations say: one
-- that was captured names the capture that succeeded, with its amount; one that was cancelled names
-- the cancellation that succeeded, or none, where the provider let the money go; one that is
-- neither names at most the one that is under way. And captures and cancellations that succeeded,
-- or are under way, of a payment that names another one. Only what was authorised has any of it.
WITH payments AS MATERIALIZED (
  SELECT * FROM auditor.settled_between($1, $2) AS settled
  WHERE kind = 'payment' AND (
    authorized_at IS NOT NULL OR closed_by IS NOT NULL OR state IN ('captured', 'canceled')
  )
  UNION
  SELECT payments.*
  FROM auditor.settled_between($1, $2) AS closings
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.transactions WHERE txn_id = closings.payment_id OFFSET 0
  ) AS payments
  WHERE closings.kind IN ('capture', 'cancellation')
)
SELECT payments.txn_id::text AS id, payments.created_at AS since
FROM payments
LEFT JOIN LATERAL (
  SELECT * FROM ledger.transactions AS found
  WHERE found.txn_id = payments.closed_by AND found.payment_id = payments.txn_id
    AND found.partner_id = payments.partner_id AND found.currency = payments.currency
  OFFSET 0
) AS closing ON true
WHERE CASE payments.state
    WHEN 'captured' THEN
      (closing.kind, closing.state, closing.amount)
        IS DISTINCT FROM ('capture', 'succeeded', payments.amount_captured)
    WHEN 'canceled' THEN
      payments.closed_by IS NOT NULL
        AND (closing.kind, closing.state) IS DISTINCT FROM ('cancellation', 'succeeded')
    WHEN 'pending' THEN payments.closed_by IS NOT NULL AND closing.state IS DISTINCT FROM 'pending'
    ELSE payments.closed_by IS NOT NULL
  END
  OR payments.authorized_at IS NULL AND payments.state IN ('captured', 'canceled')
    AND payments.failure_code IS DISTINCT FROM 'authorization_expired'
  OR EXISTS (
    SELECT FROM ledger.transactions AS others
    WHERE others.payment_id = payments.txn_id AND others.partner_id = payments.partner_id
      AND others.kind IN ('capture', 'cancellation')
      AND (others.state = 'succeeded' OR others.state = 'pending' AND others.amount IS NOT NULL)
      AND others.txn_id IS DISTINCT FROM payments.closed_by
    OFFSET 0
  )

-- name: refund_unfounded
-- Refunds that hold or gave back money of no payment of their partner and currency that succeeded.
SELECT refunds.txn_id::text AS id, refunds.created_at AS since
FROM auditor.settled_between($1, $2) AS refunds
WHERE refunds.kind = 'refund' AND refunds.state <> 'failed' AND refunds.amount IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM ledger.transactions AS payments
    WHERE payments.txn_id = refunds.payment_id
      AND payments.kind = 'payment'
      AND payments.state IN ('succeeded', 'captured')
      AND payments.partner_id = refunds.partner_id
      AND payments.currency = refunds.currency
    OFFSET 0
  )

-- name: events_differ_from_settled
-- Payments that count another number of events than they and what follows them have ends, and one
-- more each where the customer had to act, where they were authorised and for each dispute: the
-- next event would have a number that was given, or leave one out. Also payments from before the
-- window that have a refund, capture, cancellation or dispute in it.
WITH payments AS MATERIALIZED (
  SELECT * FROM auditor.settled_between($1, $2) WHERE payment_id IS NULL
  UNION
  SELECT payments.*
  FROM auditor.settled_between($1, $2) AS refunds
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.transactions WHERE txn_id = refunds.payment_id OFFSET 0
  ) AS payments
  WHERE payments.payment_id IS NULL
  UNION
  SELECT payments.*
  FROM ledger.disputes
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.transactions WHERE txn_id = disputes.txn_id OFFSET 0
  ) AS payments
  WHERE disputes.created_at >= $1 AND disputes.created_at < $2
)
SELECT payments.txn_id::text AS id, payments.created_at AS since
FROM payments
WHERE payments.events <> (payments.state <> 'pending')::integer
  + (payments.action_expires_at IS NOT NULL)::integer
  + (payments.authorized_at IS NOT NULL)::integer + (
  SELECT count(*) FROM ledger.disputes WHERE disputes.txn_id = payments.txn_id
) + (
  SELECT count(*)
  FROM (
    SELECT * FROM ledger.transactions WHERE payment_id = payments.txn_id OFFSET 0
  ) AS refunds
  WHERE refunds.partner_id = payments.partner_id AND refunds.state <> 'pending'
)
