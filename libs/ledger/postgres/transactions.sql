-- Reads and small changes of ledger.transactions: one row per payment and per refund. The steps
-- that guard it are files of their own: post.sql, settle.sql, refunds.sql, take-due.sql,
-- wake-due.sql.

-- name: findPayment
-- Reads one payment, of whatever kind.
--
-- $1 id.
-- A row: the payment as the ledger holds it. No row: the ledger does not know the id.
SELECT
  txn_id, kind, partner_id, idempotency_key, encode(fingerprint, 'hex') AS fingerprint,
  response_version, amount, currency, payment_method, reference, details, created_at,
  state, version, events, failure_code, failure_message, settled_at, amount_refunded,
  provider, provider_intent_id, provider_charge_id
FROM ledger.transactions
WHERE txn_id = $1 AND kind <> 'refund'

-- name: paymentPosition
-- The position of a payment in its partner's list.
--
-- $1 partner id, $2 id.
-- A row: its time, which never changes. No row: the ledger has no such payment of this partner.
SELECT created_at FROM ledger.transactions
WHERE txn_id = $2 AND partner_id = $1 AND kind = 'payment'

-- name: listPayments
-- Reads one page of a partner's payments, newest first.
--
-- $1 partner id, $2 how many rows at most, $3 and $4 the time and id of the payment after which the
-- page begins, $5 a state, $6 a reference; $3 to $6 null where not wished for.
-- A row: a payment. Fewer rows than $2: the list ends here.
--
-- A page begins behind a position and not at a count, so that rows which come or go above it move
-- nothing: neither part of the position ever changes. It is sent unprepared, so that the planner
-- sees which wishes are null and takes the index of the others.
SELECT
  txn_id, kind, partner_id, idempotency_key, encode(fingerprint, 'hex') AS fingerprint,
  response_version, amount, currency, payment_method, reference, details, created_at,
  state, version, events, failure_code, failure_message, settled_at, amount_refunded,
  provider, provider_intent_id, provider_charge_id
FROM ledger.transactions
WHERE partner_id = $1 AND kind = 'payment'
  AND ($3::timestamptz IS NULL OR (created_at, txn_id) < ($3, $4::uuid))
  AND ($5::text IS NULL OR state = $5)
  AND ($6::text IS NULL OR reference = $6)
ORDER BY created_at DESC, txn_id DESC
LIMIT $2

-- name: storeIntent
-- Stores the provider's intent on a pending payment, before anybody confirms it.
--
-- $1 id, $2 the version that was read, $3 provider, $4 the intent's id.
-- A row: it is stored, with the version the payment has now. No row: the payment is final, of
-- another version, or has an intent already; this one must never be confirmed.
UPDATE ledger.transactions
SET provider = $3, provider_intent_id = $4, version = version + 1
WHERE txn_id = $1 AND version = $2 AND state = 'pending' AND kind = 'payment'
  AND provider_intent_id IS NULL
RETURNING version

-- name: isEmpty
-- Whether nothing was ever posted. No parameters; always one row.
SELECT NOT EXISTS (SELECT FROM ledger.transactions) AS empty

-- name: findRefund
-- Reads one refund, and the charge that it is of.
--
-- $1 id.
-- A row: the refund as the ledger holds it. No row: the ledger does not know the id.
SELECT
  refund.txn_id, refund.partner_id, refund.idempotency_key,
  encode(refund.fingerprint, 'hex') AS fingerprint, refund.response_version, refund.payment_id,
  refund.requested_amount, refund.details, refund.amount, refund.currency, refund.created_at,
  refund.state, refund.version, refund.failure_code, refund.failure_message, refund.settled_at,
  refund.provider_refund_id, payment.provider, payment.provider_intent_id,
  payment.provider_charge_id
FROM ledger.transactions AS refund
LEFT JOIN ledger.transactions AS payment
  ON payment.txn_id = refund.payment_id AND payment.partner_id = refund.partner_id
WHERE refund.txn_id = $1 AND refund.kind = 'refund'

-- name: refundPosition
-- The position of a refund in the list of its payment's.
--
-- $1 payment id, $2 partner id, $3 id.
-- A row: its time, which never changes. No row: the partner has no such refund of this payment.
SELECT created_at FROM ledger.transactions
WHERE txn_id = $3 AND partner_id = $2 AND payment_id = $1 AND kind = 'refund'

-- name: listRefunds
-- Reads one page of a payment's refunds, newest first.
--
-- $1 payment id, $2 partner id, $3 rows at most, $4 and $5 the time and id of the refund after
-- which the page begins, or null.
-- A row: a refund, with the charge that it is of. Fewer rows than $3: the list ends here.
SELECT
  refund.txn_id, refund.partner_id, refund.idempotency_key,
  encode(refund.fingerprint, 'hex') AS fingerprint, refund.response_version, refund.payment_id,
  refund.requested_amount, refund.details, refund.amount, refund.currency, refund.created_at,
  refund.state, refund.version, refund.failure_code, refund.failure_message, refund.settled_at,
  refund.provider_refund_id, payment.provider, payment.provider_intent_id,
  payment.provider_charge_id
FROM ledger.transactions AS refund
LEFT JOIN ledger.transactions AS payment
  ON payment.txn_id = refund.payment_id AND payment.partner_id = refund.partner_id
WHERE refund.payment_id = $1 AND refund.partner_id = $2 AND refund.kind = 'refund'
  AND ($4::timestamptz IS NULL OR (refund.created_at, refund.txn_id) < ($4, $5::uuid))
ORDER BY refund.created_at DESC, refund.txn_id DESC
LIMIT $3

-- name: storeRefundId
-- Stores the provider's id of a refund that the provider has yet to finish.
--
-- $1 id, $2 the version that was read, $3 the provider's id.
-- A row: it is stored, with the version the refund has now. No row: it is final, or of another
-- version.
UPDATE ledger.transactions
SET provider_refund_id = $3, version = version + 1
WHERE txn_id = $1 AND version = $2 AND state = 'pending' AND kind = 'refund'
RETURNING version

-- name: classify
-- Reads what the ledger has under ids that could not be inserted.
--
-- $1 ids. It must be a statement of its own after the insert: under READ COMMITTED it then sees
-- the rows that the insert waited for, which the insert's own snapshot does not.
-- A row: the id's transaction. No row: the transaction that had inserted it rolled back; post
-- again.
SELECT txn_id, encode(fingerprint, 'hex') AS fingerprint, state, version
FROM ledger.transactions
WHERE txn_id = ANY ($1::uuid[])
