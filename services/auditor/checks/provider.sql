-- The ledger against the journals of the providers.
--
-- A row: an offending `id`, and `since` when it has been one. No row: the check holds. checks.ts
-- says when it must, and what the window from $1 until $2 is. One that nobody can judge without the
-- journal leaves out what is of the providers $3, whose journals could not be read.
--
-- What the journal has of the provider is of the window in which it last learned something new of
-- it, by the database's clock: a list may be read days later.

-- name: payment_contradicts_provider
-- Card payments that the provider shows otherwise than the ledger has them, for good, and intents
-- of ours that no payment names and that somebody has confirmed all the same: provider-pairs.ts has
-- every pair. Money that was taken for a payment that had ended without it is among them.
SELECT id, since
FROM auditor.provider_pairs($1, $2)
WHERE pair IN (/* payments: drift */)

-- name: payment_differs_from_provider
-- Card payments that the provider shows otherwise than the ledger has them, as long as one of the
-- two is only behind: money held of one that has ended, or an intent that may still be confirmed.
-- One that is pending is the workers' to finish already, unless it is said to wait for others.
SELECT id, since
FROM auditor.provider_pairs($1, $2)
WHERE pair IN (/* payments: in flight */) AND NOT is_left
  AND (provider = ANY ($3::text[])) IS NOT TRUE

-- name: given_back_otherwise
-- Refunds of cards that ended otherwise at the provider than in the ledger: one that succeeded gave
-- money back there, and of one that failed none went back. provider-pairs.ts has every pair.
WITH touched AS MATERIALIZED (
  SELECT txn_id FROM auditor.settled_between($1, $2) WHERE kind = 'refund'
  UNION
  SELECT txn_id FROM auditor.refunds WHERE changed_at >= $1 AND changed_at < $2
)
SELECT booked.txn_id::text AS id, booked.settled_at AS since
FROM touched
CROSS JOIN LATERAL (
  SELECT * FROM ledger.transactions WHERE transactions.txn_id = touched.txn_id OFFSET 0
) AS booked
CROSS JOIN LATERAL (
  SELECT payment_method, provider FROM ledger.transactions WHERE txn_id = booked.payment_id OFFSET 0
) AS payments
CROSS JOIN LATERAL (
  SELECT CASE
      WHEN bool_or(status = 'succeeded') THEN 'succeeded'
      WHEN bool_or(status = 'pending') THEN 'pending'
      WHEN count(*) > 0 THEN 'failed'
      ELSE 'none'
    END AS state
  FROM auditor.refunds
  WHERE refunds.txn_id = booked.txn_id
  OFFSET 0
) AS made
WHERE booked.kind = 'refund' AND booked.state <> 'pending' AND payments.payment_method IS NOT NULL
  AND concat_ws(' ', booked.state, made.state) IN (/* refunds: in flight */)
  AND (payments.provider = ANY ($3::text[])) IS NOT TRUE

-- name: charged_twice
-- Transactions that were charged more than once: there is never a second successful charge, but for
-- one that an operator gave back.
WITH given_back AS MATERIALIZED (
  SELECT charge_id FROM auditor.returned
)
SELECT txn_id::text AS id, since
FROM (
  SELECT DISTINCT txn_id FROM auditor.charges WHERE changed_at >= $1 AND changed_at < $2
) AS touched
CROSS JOIN LATERAL (
  SELECT max(created_at) AS since, count(*) AS number FROM auditor.charges
  WHERE charges.txn_id = touched.txn_id AND status = 'succeeded'
    AND charges.id NOT IN (SELECT charge_id FROM given_back)
) AS made
WHERE number > 1

-- name: charge_unfounded
-- Charges of ours, tried ones included, of an intent that no payment names. One that was charged by
-- one call may wait for whoever stores it, as long as its payment is pending and has no other.
SELECT charges.id, charges.created_at AS since
FROM auditor.charges
WHERE charges.txn_id IS NOT NULL
  AND charges.changed_at >= $1 AND charges.changed_at < $2
  AND NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.txn_id = charges.txn_id
      AND transactions.kind = 'payment'
      AND (
        transactions.provider_intent_id = charges.intent_id
        OR transactions.provider_intent_id IS NULL AND transactions.state = 'pending'
      )
      AND coalesce(transactions.provider, charges.provider) = charges.provider
    OFFSET 0
  )
  AND NOT EXISTS (SELECT FROM auditor.returned WHERE returned.charge_id = charges.id)

-- name: charge_differs_from_ledger
-- Charges that took another amount, currency or partner's money than the payment says, or are
-- another charge than it names. Of a payment that was captured that is what was captured; of one
-- that is being captured, what that capture asks for.
WITH touched AS MATERIALIZED (
  SELECT txn_id FROM auditor.settled_between($1, $2) WHERE payment_method IS NOT NULL
  UNION
  SELECT txn_id FROM auditor.charges WHERE changed_at >= $1 AND changed_at < $2
)
SELECT charges.id, charges.created_at AS since
FROM touched
CROSS JOIN LATERAL (
  SELECT * FROM auditor.charges WHERE charges.txn_id = touched.txn_id OFFSET 0
) AS charges
CROSS JOIN LATERAL (
  SELECT * FROM ledger.transactions WHERE transactions.txn_id = touched.txn_id OFFSET 0
) AS transactions
WHERE charges.status = 'succeeded'
  AND (
    (charges.amount, charges.currency, charges.partner_id)
      IS DISTINCT FROM (
        coalesce(
          transactions.amount_captured,
          (SELECT captures.amount FROM ledger.transactions AS captures
           WHERE captures.txn_id = transactions.closed_by AND captures.kind = 'capture'),
          transactions.amount
        ),
        transactions.currency, transactions.partner_id
      )
    OR transactions.state IN ('succeeded', 'captured')
      AND charges.id IS DISTINCT FROM transactions.provider_charge_id
  )
  AND NOT EXISTS (SELECT FROM auditor.returned WHERE returned.charge_id = charges.id)

-- name: given_back_twice
-- Refunds that the provider made more than once.
SELECT txn_id::text AS id, since
FROM (
  SELECT DISTINCT txn_id FROM auditor.refunds WHERE changed_at >= $1 AND changed_at < $2
) AS touched
CROSS JOIN LATERAL (
  SELECT max(created_at) AS since, count(*) AS number FROM auditor.refunds
  WHERE refunds.txn_id = touched.txn_id AND status <> 'failed'
) AS made
WHERE number > 1

-- name: given_back_unfounded
-- Refunds of our charges at the provider that are none of the ledger's: made by hand, or of another
-- payment's charge, and not by an operator of what was taken wrongly.
SELECT refunds.id, refunds.created_at AS since
FROM auditor.refunds
WHERE refunds.status <> 'failed'
  AND refunds.changed_at >= $1 AND refunds.changed_at < $2
  AND NOT EXISTS (
    SELECT FROM ledger.transactions AS booked
    JOIN ledger.transactions AS payments ON payments.txn_id = booked.payment_id
    WHERE booked.txn_id = refunds.txn_id
      AND booked.kind = 'refund'
      AND payments.provider_intent_id = refunds.intent_id
      AND payments.provider = refunds.provider
    OFFSET 0
  )
  AND NOT EXISTS (SELECT FROM auditor.returned WHERE returned.refund_id = refunds.id)

-- name: given_back_differs_from_ledger
-- Refunds at the provider of another amount, currency or partner than the ledger's, or that are
-- another refund than it names.
SELECT refunds.id, refunds.created_at AS since
FROM auditor.refunds
CROSS JOIN LATERAL (
  SELECT * FROM ledger.transactions WHERE transactions.txn_id = refunds.txn_id OFFSET 0
) AS transactions
WHERE refunds.status <> 'failed'
  AND refunds.changed_at >= $1 AND refunds.changed_at < $2
  AND (
    (refunds.amount, refunds.currency, refunds.partner_id)
      IS DISTINCT FROM (transactions.amount, transactions.currency, transactions.partner_id)
    OR transactions.state = 'succeeded'
      AND refunds.id IS DISTINCT FROM transactions.provider_refund_id
  )
  AND NOT EXISTS (SELECT FROM auditor.returned WHERE returned.refund_id = refunds.id)

-- name: dispute_untold
-- Disputes at the provider that the ledger has not noted of their payment: a webhook that was lost,
-- or that comes again while its payment is pending. One of another currency cannot be noted.
SELECT disputes.id, disputes.created_at AS since
FROM auditor.disputes
WHERE disputes.changed_at >= $1 AND disputes.changed_at < $2
  AND disputes.provider <> ALL ($3::text[])
  AND NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.provider_intent_id = disputes.intent_id
      AND transactions.provider = disputes.provider
      AND transactions.currency <> disputes.currency
    OFFSET 0
  )
  AND NOT EXISTS (
    SELECT FROM ledger.disputes AS noted
    JOIN ledger.transactions USING (txn_id)
    WHERE noted.dispute_id = disputes.id AND transactions.provider_intent_id = disputes.intent_id
      AND transactions.provider = disputes.provider
    OFFSET 0
  )

-- name: dispute_unfounded
-- Disputes that the ledger has noted of a payment, and that the provider does not have of its
-- intent.
SELECT noted.dispute_id AS id, noted.created_at AS since
FROM ledger.disputes AS noted
WHERE noted.created_at >= $1 AND noted.created_at < $2
  AND NOT EXISTS (
    SELECT FROM auditor.disputes
    JOIN ledger.transactions
      ON transactions.provider_intent_id = disputes.intent_id
      AND transactions.provider = disputes.provider
    WHERE disputes.id = noted.dispute_id AND transactions.txn_id = noted.txn_id
    OFFSET 0
  )
  AND NOT EXISTS (
    SELECT FROM ledger.transactions
    WHERE transactions.txn_id = noted.txn_id AND transactions.provider = ANY ($3::text[])
    OFFSET 0
  )

-- name: dispute_differs_from_ledger
-- Disputes at the provider of another currency than their payment, of which its partner could not
-- be told, or of another amount than the ledger has noted.
SELECT disputes.id, disputes.created_at AS since
FROM auditor.disputes
CROSS JOIN LATERAL (
  SELECT txn_id, currency FROM ledger.transactions
  WHERE transactions.provider_intent_id = disputes.intent_id
    AND transactions.provider = disputes.provider
  OFFSET 0
) AS payments
LEFT JOIN LATERAL (
  SELECT amount FROM ledger.disputes AS noted
  WHERE noted.txn_id = payments.txn_id AND noted.dispute_id = disputes.id OFFSET 0
) AS noted ON true
WHERE disputes.changed_at >= $1 AND disputes.changed_at < $2
  AND (disputes.currency <> payments.currency OR disputes.amount <> noted.amount)

-- name: dispute_ended_otherwise
-- Disputes that ended at the provider and not in the ledger, a report that was lost, or otherwise;
-- and those that ended in the ledger and not there. One that the provider does not have is
-- unfounded already.
WITH touched AS MATERIALIZED (
  SELECT txn_id, dispute_id FROM ledger.dispute_ends WHERE ended_at >= $1 AND ended_at < $2
  UNION
  SELECT noted.txn_id, noted.dispute_id
  FROM auditor.disputes
  CROSS JOIN LATERAL (
    SELECT txn_id, dispute_id FROM ledger.disputes AS known
    WHERE known.dispute_id = disputes.id OFFSET 0
  ) AS noted
  WHERE disputes.changed_at >= $1 AND disputes.changed_at < $2
)
SELECT touched.dispute_id AS id, coalesce(ends.ended_at, seen.changed_at) AS since
FROM touched
CROSS JOIN LATERAL (
  SELECT provider, provider_intent_id FROM ledger.transactions
  WHERE transactions.txn_id = touched.txn_id OFFSET 0
) AS payments
CROSS JOIN LATERAL (
  SELECT status, changed_at FROM auditor.disputes
  WHERE disputes.id = touched.dispute_id AND disputes.provider = payments.provider
    AND disputes.intent_id = payments.provider_intent_id
  OFFSET 0
) AS seen
LEFT JOIN LATERAL (
  SELECT ended, ended_at FROM ledger.dispute_ends AS noted
  WHERE noted.txn_id = touched.txn_id AND noted.dispute_id = touched.dispute_id OFFSET 0
) AS ends ON true
WHERE ends.ended
    IS DISTINCT FROM CASE seen.status WHEN 'succeeded' THEN 'lost' WHEN 'failed' THEN 'won' END
  AND (payments.provider = ANY ($3::text[])) IS NOT TRUE
