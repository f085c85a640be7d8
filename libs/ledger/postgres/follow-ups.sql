-- What is done to refunds, captures and cancellations, which are rows of ledger.transactions: made,
-- reserved on their payment, given their provider's id, settled. How they are read is in
-- transactions.sql.

-- name: postFollowUp
-- Makes the row of a refund, capture or cancellation, waiting for its payment.
--
-- $1 id, $2 partner, $3 idempotency key, $4 fingerprint in hex, $5 response version, $6 payment id,
-- $7 the amount asked for or null for all that is left, $8 details as JSON text, $9 created at,
-- $10 traceparent, $11 milliseconds after which the resolver takes it up while it is pending,
-- $12 its kind.
-- A row: this statement made it. No row: its id is taken.
INSERT INTO ledger.transactions (
  txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, payment_id,
  requested_amount, details, created_at, traceparent, state, events, due_at
)
VALUES (
  $1, $12, $2, $3, decode($4, 'hex'), $5, $6, $7, $8, $9, $10, 'pending', 0,
  now() + $11::integer * interval '1 millisecond'
)
ON CONFLICT DO NOTHING
RETURNING txn_id

-- name: reserveRefund
-- Reserves a pending refund's amount on its payment, once, when it fits.
--
-- $1 the refund's id, $2 null, or the amount that judgeRemembered found to fit.
-- A row: `decision` is `reserved` (now or before), `waiting` (its payment is pending, or not there
-- and may still come, or an earlier refund of it is undecided), `locked` (somebody else has its
-- payment, and nothing was written), `unasked` (the provider has to be asked for the refunds that
-- it made of the payment before the ledger was set back), `remembered` (something is known of what
-- was given back or told before that: judgeRemembered decides), or why it can never be given
-- back: `payment_not_refundable`, `amount_exceeds_refundable`. No row: the refund is final, or
-- somebody else has it.
--
-- The refund is locked before its payment, here, in lockBoth and in settleFollowUp. Nobody is
-- waited for: what else is to be posted should not wait for one row. Under READ COMMITTED both
-- locked rows are the newest, so of refunds racing on one payment each sees what the others
-- reserved, and the cap is compared once more by the update and by the table's own check. A payment
-- that is not there a day after its refund was accepted was set aside and will not come by itself.
-- Until then the refund is looked at again after a while (ledger.rest_of): the statement that posts
-- a batch of payments does not look for their refunds. A payment that is pending wakes its refunds
-- when it is settled, all at once: they are decided in the order in which they were accepted, and
-- one whose turn it is not is due again in a second.
WITH refund AS MATERIALIZED (
  SELECT partner_id, payment_id, requested_amount, amount, created_at FROM ledger.transactions
  WHERE txn_id = $1 AND kind = 'refund' AND settled_at IS NULL
  FOR NO KEY UPDATE SKIP LOCKED
), payment AS MATERIALIZED (
  SELECT target.txn_id, target.state, target.currency, target.refund_reserved,
         target.provider, target.provider_intent_id, target.created_at,
         coalesce(target.amount_captured, target.amount) AS amount
  FROM ledger.transactions AS target
  JOIN refund ON target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
  WHERE target.kind = 'payment'
  FOR NO KEY UPDATE OF target SKIP LOCKED
), locked AS (
  -- By somebody else: it is there and is none of the rows above.
  SELECT target.txn_id FROM ledger.transactions AS target
  JOIN refund ON target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
  WHERE target.kind = 'payment' AND NOT EXISTS (SELECT FROM payment)
), ahead AS (
  -- Of those that were accepted before it, one that is undecided.
  SELECT earlier.txn_id FROM ledger.transactions AS earlier
  JOIN refund ON earlier.payment_id = refund.payment_id AND earlier.partner_id = refund.partner_id
  WHERE earlier.created_at <= refund.created_at
    AND (earlier.created_at, earlier.txn_id) < (refund.created_at, $1)
    AND earlier.kind = 'refund' AND earlier.settled_at IS NULL AND earlier.amount IS NULL
  LIMIT 1
), judged AS MATERIALIZED (
  SELECT
    payment.txn_id AS payment_id, payment.currency, payment.provider,
    coalesce($2::bigint, refund.requested_amount, payment.amount - payment.refund_reserved)
      AS amount,
    CASE
      WHEN refund.amount IS NOT NULL THEN 'reserved'
      WHEN EXISTS (SELECT FROM locked)
        THEN CASE WHEN EXISTS (SELECT FROM ahead) THEN 'behind' ELSE 'locked' END
      WHEN $2::bigint IS NOT NULL THEN 'fits'
      WHEN EXISTS (
        SELECT FROM ledger.told
        WHERE told.txn_id = $1 AND told.state = 'failed' AND told.adopted_at IS NULL
      ) THEN 'remembered'
      WHEN payment.state = 'pending' THEN 'waiting'
      WHEN payment.provider_intent_id IS NOT NULL AND EXISTS (
        SELECT FROM (
          SELECT done_at FROM ledger.rewinds WHERE NOT disputes_only ORDER BY done_at DESC LIMIT 1
        ) AS last
        WHERE payment.created_at < done_at + interval '1 hour' AND NOT EXISTS (
          SELECT FROM ledger.recalled
          WHERE recalled.payment_id = payment.txn_id AND recalled_at > done_at
        )
      ) THEN 'unasked'
      WHEN payment.state IN ('succeeded', 'captured') AND EXISTS (SELECT FROM ahead)
        THEN 'behind'
      WHEN EXISTS (
        SELECT FROM ledger.told
        WHERE told.payment_id = refund.payment_id AND told.adopted_at IS NULL
      ) OR EXISTS (
        SELECT FROM ledger.given_back WHERE given_back.payment_id = refund.payment_id
      ) THEN 'remembered'
      WHEN payment.state IS NULL AND refund.created_at > now() - interval '1 day' THEN 'waiting'
      WHEN payment.state IS NULL OR payment.state NOT IN ('succeeded', 'captured')
        THEN 'payment_not_refundable'
      WHEN payment.refund_reserved = payment.amount
        OR payment.refund_reserved + refund.requested_amount > payment.amount
        THEN 'amount_exceeds_refundable'
      ELSE 'fits'
    END AS decision
  FROM refund LEFT JOIN payment ON true
), held AS (
  UPDATE ledger.transactions AS target
  SET refund_reserved = target.refund_reserved + judged.amount, version = target.version + 1
  FROM judged
  WHERE target.txn_id = judged.payment_id AND judged.decision = 'fits'
    AND target.refund_reserved + judged.amount <= coalesce(target.amount_captured, target.amount)
), named AS (
  UPDATE ledger.transactions AS target
  SET amount = judged.amount, currency = judged.currency, provider = judged.provider,
      version = target.version + 1
  FROM judged
  WHERE target.txn_id = $1 AND judged.decision = 'fits'
), soon AS (
  UPDATE ledger.transactions AS target
  SET version = target.version + 1,
      due_at = now() + CASE judged.decision
        WHEN 'behind' THEN interval '1 second' ELSE ledger.rest_of(target.created_at) END
  FROM judged
  WHERE target.txn_id = $1 AND (
    judged.decision = 'behind' OR judged.decision = 'waiting' AND judged.payment_id IS NULL
  )
)
SELECT CASE decision WHEN 'fits' THEN 'reserved' WHEN 'behind' THEN 'waiting' ELSE decision END
  AS decision
FROM judged

-- name: judgeRemembered
-- What becomes of a refund of which, or of whose payment, something is known from before the ledger
-- was set back: what was told of it, or what the provider shows under its id, and what others are
-- known to have got is nobody else's.
--
-- $1 the refund's id.
-- A row: `decision` as reserveRefund has it, which is left to do what follows from it: `fits` is
-- for it to reserve `amount`. Or `failed`: it failed before, and `code` and `message` say why. A
-- known one whose payment has no room for it, which nothing here can have led to, waits.
--
-- It comes after reserveRefund, in its transaction: the refund and its payment are locked since
-- then, so here is seen what others reserved until they gave those locks up, and nobody reserves
-- anything before reserveRefund comes again.
WITH refund AS MATERIALIZED (
  SELECT txn_id, partner_id, payment_id, requested_amount, created_at FROM ledger.transactions
  WHERE txn_id = $1 AND kind = 'refund' AND settled_at IS NULL
), payment AS MATERIALIZED (
  SELECT target.state, target.refund_reserved,
         coalesce(target.amount_captured, target.amount) AS amount
  FROM ledger.transactions AS target
  JOIN refund ON target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
  WHERE target.kind = 'payment'
), known AS MATERIALIZED (
  SELECT given_back.txn_id, given_back.amount, given_back.failure_code,
         given_back.failure_message, 2 AS rank
  FROM ledger.given_back JOIN refund ON given_back.payment_id = refund.payment_id
  UNION ALL
  SELECT told.txn_id, told.amount, told.failure_code, told.failure_message, 1
  FROM ledger.told JOIN refund ON told.payment_id = refund.payment_id
  WHERE told.adopted_at IS NULL AND told.state IS NOT NULL
    AND told.event_type IN ('refund.succeeded', 'refund.failed')
), remembered AS MATERIALIZED (
  -- What was told comes before what the provider says by now.
  SELECT DISTINCT ON (txn_id) * FROM known ORDER BY txn_id, rank
), others AS (
  -- What they are known to have got, and have yet to reserve.
  SELECT coalesce(sum(remembered.amount), 0)::bigint AS amount FROM remembered
  WHERE remembered.txn_id <> $1 AND remembered.failure_code IS NULL AND NOT EXISTS (
    SELECT FROM ledger.transactions AS other
    WHERE other.txn_id = remembered.txn_id
      AND (other.amount IS NOT NULL OR other.settled_at IS NOT NULL)
  )
)
SELECT
  CASE
    WHEN own.failure_code IS NOT NULL THEN 'failed'
    WHEN payment.state = 'pending' THEN 'waiting'
    WHEN payment.state IS NULL AND refund.created_at > now() - interval '1 day' THEN 'waiting'
    WHEN payment.state IS NULL OR payment.state NOT IN ('succeeded', 'captured')
      THEN 'payment_not_refundable'
    WHEN own.txn_id IS NOT NULL THEN CASE
      WHEN payment.refund_reserved + coalesce(refund.requested_amount, own.amount)
        <= payment.amount THEN 'fits'
      ELSE 'waiting'
    END
    WHEN payment.refund_reserved + others.amount >= payment.amount
      OR payment.refund_reserved + others.amount + refund.requested_amount > payment.amount
      THEN 'amount_exceeds_refundable'
    ELSE 'fits'
  END AS decision,
  coalesce(
    refund.requested_amount, own.amount, payment.amount - payment.refund_reserved - others.amount
  ) AS amount,
  own.failure_code AS code, own.failure_message AS message
FROM refund
LEFT JOIN payment ON true
LEFT JOIN remembered AS own ON own.txn_id = refund.txn_id
CROSS JOIN others

-- name: lockBoth
-- Locks what follows a payment, and then the payment, by waiting for whoever has them.
--
-- $1 its id, $2 the payment's. Rows: what of them is there.
SELECT txn_id FROM ledger.transactions WHERE txn_id IN ($1, $2)
ORDER BY payment_id IS NULL
FOR NO KEY UPDATE

-- name: dueSoon
-- Has one looked at again after a while (ledger.rest_of), unless somebody has it.
--
-- $1 its id. No rows.
WITH free AS (
  SELECT txn_id FROM ledger.transactions WHERE txn_id = $1 AND settled_at IS NULL
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ledger.transactions AS target
SET version = target.version + 1,
    due_at = now() + ledger.rest_of(target.created_at)
FROM free WHERE target.txn_id = free.txn_id

-- name: dueNow
-- Has a pending transaction looked after at once. $1 its id. No rows.
UPDATE ledger.transactions SET due_at = now() WHERE txn_id = $1 AND settled_at IS NULL

-- name: lockPayment
-- Locks a payment for what is decided of its refunds. $1 its id. A row: it is there.
SELECT txn_id FROM ledger.transactions WHERE txn_id = $1 AND kind = 'payment' FOR NO KEY UPDATE

-- name: noteGivenBack
-- Notes the refunds that the provider shows of a payment, as it shows them now, and that it was
-- asked for all of them.
--
-- $1 the payment's id, and of each refund $2 id, $3 amount, $4 failure code and $5 message, null
-- where it gave the money back or may yet. No rows. It runs under the payment's lock.
WITH shown AS (
  INSERT INTO ledger.given_back (txn_id, payment_id, amount, failure_code, failure_message)
  SELECT txn_id, $1, amount, code, message
  FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[])
    AS shown (txn_id, amount, code, message)
  ON CONFLICT (txn_id) DO UPDATE SET
    amount = excluded.amount, failure_code = excluded.failure_code,
    failure_message = excluded.failure_message, noted_at = now()
)
INSERT INTO ledger.recalled (payment_id) VALUES ($1)
ON CONFLICT (payment_id) DO UPDATE SET recalled_at = now()

-- name: reserveClosing
-- Takes an authorised payment for the capture or cancellation that is to end it, once, when it is
-- nobody else's.
--
-- $1 its id.
-- A row: `decision` is `reserved` (now or before), `waiting` (its payment is not there and may
-- still come, is not authorised yet, is another one's whose end is not known, or an earlier one is
-- undecided), `locked` as reserveRefund has it, or why it can never be:
-- `amount_exceeds_authorized`, `payment_already_captured`, `payment_not_authorized`, or why the
-- payment was cancelled, which is its own failure code. `failed`: that it did was told before the
-- ledger was set back, with `code` and `message`; while another one is known so to have ended the
-- payment, it waits for that one. No row: it is final, or somebody else has it.
--
-- Locked as reserveRefund locks, so of any number at once the first one has the payment, and each
-- of the others sees it so. It lets go of it when it is settled as failed.
WITH closing AS MATERIALIZED (
  SELECT partner_id, payment_id, requested_amount, amount, created_at FROM ledger.transactions
  WHERE txn_id = $1 AND kind IN ('capture', 'cancellation') AND settled_at IS NULL
  FOR NO KEY UPDATE SKIP LOCKED
), payment AS MATERIALIZED (
  SELECT target.txn_id, target.state, target.amount, target.currency, target.authorized_at,
         target.provider, target.closed_by, target.failure_code
  FROM ledger.transactions AS target
  JOIN closing ON target.txn_id = closing.payment_id AND target.partner_id = closing.partner_id
  WHERE target.kind = 'payment'
  FOR NO KEY UPDATE OF target SKIP LOCKED
), locked AS (
  -- By somebody else: it is there and is none of the rows above.
  SELECT target.txn_id FROM ledger.transactions AS target
  JOIN closing ON target.txn_id = closing.payment_id AND target.partner_id = closing.partner_id
  WHERE target.kind = 'payment' AND NOT EXISTS (SELECT FROM payment)
), ahead AS (
  -- Of those that were accepted before it, one that is undecided.
  SELECT earlier.txn_id FROM ledger.transactions AS earlier
  JOIN closing ON earlier.payment_id = closing.payment_id AND earlier.partner_id = closing.partner_id
  WHERE earlier.created_at <= closing.created_at
    AND (earlier.created_at, earlier.txn_id) < (closing.created_at, $1)
    AND earlier.kind IN ('capture', 'cancellation')
    AND earlier.settled_at IS NULL AND earlier.amount IS NULL
  LIMIT 1
), judged AS MATERIALIZED (
  SELECT
    payment.txn_id AS payment_id, payment.currency, payment.provider,
    coalesce(closing.requested_amount, payment.amount) AS amount,
    CASE
      WHEN closing.amount IS NOT NULL THEN 'reserved'
      WHEN EXISTS (SELECT FROM locked)
        THEN CASE WHEN EXISTS (SELECT FROM ahead) THEN 'behind' ELSE 'locked' END
      WHEN told.state = 'failed' THEN 'failed'
      WHEN payment.state IS NULL AND closing.created_at > now() - interval '1 day' THEN 'waiting'
      WHEN payment.state = 'captured' THEN 'payment_already_captured'
      WHEN payment.state = 'canceled' THEN payment.failure_code
      WHEN payment.state IS DISTINCT FROM 'pending' THEN 'payment_not_authorized'
      WHEN closing.requested_amount > payment.amount THEN 'amount_exceeds_authorized'
      WHEN payment.authorized_at IS NULL OR payment.closed_by IS NOT NULL THEN 'waiting'
      WHEN told.state IS NULL AND EXISTS (
        SELECT FROM ledger.told AS winner
        WHERE winner.payment_id = closing.payment_id AND winner.adopted_at IS NULL
          AND winner.event_type IN ('capture.succeeded', 'cancellation.succeeded')
      ) THEN 'waiting'
      WHEN told.state IS NULL AND EXISTS (SELECT FROM ahead) THEN 'behind'
      ELSE 'fits'
    END AS decision,
    told.failure_code AS code, told.failure_message AS message
  FROM closing
  LEFT JOIN payment ON true
  LEFT JOIN ledger.told
    ON told.txn_id = $1 AND told.state IS NOT NULL AND told.adopted_at IS NULL
), taken AS (
  UPDATE ledger.transactions AS target
  SET closed_by = $1, version = target.version + 1
  FROM judged
  WHERE target.txn_id = judged.payment_id AND judged.decision = 'fits'
    AND target.closed_by IS NULL AND target.settled_at IS NULL
), named AS (
  UPDATE ledger.transactions AS target
  SET amount = judged.amount, currency = judged.currency, provider = judged.provider,
      version = target.version + 1
  FROM judged
  WHERE target.txn_id = $1 AND judged.decision = 'fits'
), soon AS (
  UPDATE ledger.transactions AS target
  SET version = target.version + 1,
      due_at = now() + CASE judged.decision
        WHEN 'behind' THEN interval '1 second' ELSE ledger.rest_of(target.created_at) END
  FROM judged
  WHERE target.txn_id = $1 AND (
    judged.decision = 'behind' OR judged.decision = 'waiting' AND judged.payment_id IS NULL
  )
)
SELECT
  CASE decision WHEN 'fits' THEN 'reserved' WHEN 'behind' THEN 'waiting' ELSE decision END
    AS decision,
  code, message
FROM judged

-- name: settleFollowUp
-- Makes a pending refund, capture or cancellation final, counts a refund on its payment and takes
-- the payment's next sequence.
--
-- $1 id, $2 the version that was read, $3 succeeded or failed, $4 failure code, $5 failure message,
-- $6 when it was settled, $7 the provider's id of the refund or null.
-- A row: it is final now; its entry and event must follow in the same transaction. `sequence` is
-- null when the partner has no such payment, and it is then ordered by itself. `version` is the
-- payment's.
-- No row: it was final, or is of another version, and nothing was written.
-- Where another end was told before the ledger was set back (ledger.told), that end is written; its
-- event has its number, and is in the outbox.
--
-- What a failed refund had reserved is given back to the payment, and a failed capture or
-- cancellation lets go of it.
WITH refund AS (
  UPDATE ledger.transactions AS target SET
    state = coalesce(told.state, $3),
    failure_code = CASE WHEN told.state IS NULL THEN $4 ELSE told.failure_code END,
    failure_message = CASE WHEN told.state IS NULL THEN $5 ELSE told.failure_message END,
    settled_at = coalesce(told.happened_at, $6),
    amount = coalesce(target.amount, told.amount),
    currency = coalesce(target.currency, told.currency),
    provider_refund_id = coalesce($7, target.provider_refund_id),
    due_at = NULL,
    version = target.version + 1
  FROM ledger.transactions AS before
  LEFT JOIN ledger.told
    ON told.txn_id = before.txn_id AND told.state IS NOT NULL AND told.adopted_at IS NULL
  WHERE before.txn_id = $1 AND target.txn_id = $1 AND target.version = $2
    AND target.settled_at IS NULL AND target.payment_id IS NOT NULL
  RETURNING target.kind, target.partner_id, target.payment_id, target.amount, target.state,
            before.amount AS reserved, told.sequence AS told
), payment AS (
  UPDATE ledger.transactions AS target SET
    amount_refunded = target.amount_refunded
      + CASE WHEN refund.state = 'succeeded' AND refund.kind = 'refund' THEN refund.amount ELSE 0 END,
    refund_reserved = target.refund_reserved
      - CASE WHEN refund.state = 'failed' AND refund.kind = 'refund'
          THEN coalesce(refund.reserved, 0)
         ELSE 0 END,
    closed_by = CASE WHEN refund.state = 'succeeded' THEN target.closed_by
      ELSE nullif(target.closed_by, $1) END,
    events = target.events + CASE WHEN refund.told IS NULL THEN 1 ELSE 0 END,
    version = target.version + 1
  FROM refund
  WHERE target.txn_id = refund.payment_id AND target.partner_id = refund.partner_id
    AND target.kind = 'payment'
  RETURNING target.events, target.version
)
SELECT payment.events AS sequence, payment.version FROM refund LEFT JOIN payment ON true

-- name: storeRefundId
-- Stores the provider's id of a refund that the provider has yet to finish.
--
-- $1 id, $2 the version that was read, $3 the provider's id.
-- A row: it is stored, with the version the refund has now. No row: it is final, or of another
-- version.
UPDATE ledger.transactions
SET provider_refund_id = $3, version = version + 1
WHERE txn_id = $1 AND version = $2 AND settled_at IS NULL AND kind = 'refund'
RETURNING version
