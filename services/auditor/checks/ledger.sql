-- The ledger against what was accepted, and against itself.
--
-- Each statement takes no parameters. A row: an offending `id`, and `since` when it has been one.
-- No row: the check holds. checks.ts says when it must.

-- name: ledger_not_accepted
-- Ledger rows without a request in the topic.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
WHERE NOT EXISTS (
  SELECT FROM auditor.accepted
  WHERE accepted.txn_id = transactions.txn_id AND accepted.fingerprint = transactions.fingerprint
)

-- name: ledger_unfinished
-- Transactions that are not final and are for the workers alone to finish.
SELECT txn_id::text AS id, created_at AS since
FROM ledger.transactions
WHERE state = 'pending'
  AND NOT EXISTS (
    SELECT FROM auditor.waiting_outside WHERE waiting_outside.txn_id = transactions.txn_id
  )

-- name: card_unfinished
-- Transactions that are not final because a customer, a bank or the provider has yet to do
-- something.
SELECT txn_id::text AS id, created_at AS since
FROM auditor.waiting_outside
WHERE NOT EXISTS (
  SELECT FROM ledger.transactions AS accepted
  WHERE accepted.txn_id = waiting_outside.txn_id AND accepted.provider_refund_id IS NOT NULL
)

-- name: refund_at_bank
-- Refunds that the provider has accepted and a bank has yet to carry out.
SELECT txn_id::text AS id, created_at AS since
FROM ledger.transactions
WHERE state = 'pending' AND provider_refund_id IS NOT NULL

-- name: ledger_history_changed
-- What a ledger in another store says of its rows, and their history does not allow: an amount, an
-- end or an event that was changed, a row that is gone. Empty where the ledger is in PostgreSQL,
-- which refuses.
SELECT kind || ' ' || id AS id, first_seen AS since
FROM ledger.copy_differences

-- name: ledger_differs_from_accepted
-- Ledger rows of another kind, partner, payment, amount or currency than their request. A refund
-- has its payment's currency, and an amount that the request may leave open.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
JOIN auditor.accepted USING (txn_id, fingerprint)
WHERE (transactions.kind, transactions.partner_id, transactions.payment_id)
    IS DISTINCT FROM (accepted.kind, accepted.partner_id, accepted.payment_id)
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
FROM ledger.transactions
WHERE txn_id <> auditor.derive_id(kind, partner_id, idempotency_key)

-- name: entry_differs_from_ledger
-- Transactions that moved other money than they say: one that succeeded moves its amount once, into
-- the partner's payable funds or, for a refund, back to where its payment's came from, and any
-- other moves nothing. A transaction has one entry at most.
SELECT transactions.txn_id::text AS id, transactions.created_at AS since
FROM ledger.transactions
LEFT JOIN ledger.entries USING (txn_id)
LEFT JOIN ledger.entries AS paid ON paid.txn_id = transactions.payment_id
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
-- come to; and those of which more is given back than was paid.
SELECT payments.txn_id::text AS id, payments.created_at AS since
FROM ledger.transactions AS payments
LEFT JOIN (
  SELECT payment_id, partner_id, currency,
         sum(amount) FILTER (WHERE state <> 'failed') AS reserved,
         sum(amount) FILTER (WHERE state = 'succeeded') AS refunded
  FROM ledger.transactions
  WHERE kind = 'refund' AND amount IS NOT NULL
  GROUP BY payment_id, partner_id, currency
) AS refunds ON refunds.payment_id = payments.txn_id
  AND refunds.partner_id = payments.partner_id
  AND refunds.currency = payments.currency
WHERE payments.kind = 'payment' AND (
  payments.refund_reserved <> coalesce(refunds.reserved, 0)
  OR payments.amount_refunded <> coalesce(refunds.refunded, 0)
  OR payments.refund_reserved > CASE payments.state WHEN 'succeeded' THEN payments.amount ELSE 0 END
)

-- name: refund_unfounded
-- Refunds that hold or gave back money of no payment of their partner and currency that succeeded.
SELECT refunds.txn_id::text AS id, refunds.created_at AS since
FROM ledger.transactions AS refunds
WHERE refunds.kind = 'refund' AND refunds.state <> 'failed' AND refunds.amount IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM ledger.transactions AS payments
    WHERE payments.txn_id = refunds.payment_id
      AND payments.kind = 'payment'
      AND payments.state = 'succeeded'
      AND payments.partner_id = refunds.partner_id
      AND payments.currency = refunds.currency
  )
