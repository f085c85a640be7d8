-- Reads and changes of ledger.transactions: one row per payment, and per refund, capture and
-- cancellation. The steps that guard it are post.sql and settle.sql, and follow-ups.sql for what
-- follows a payment. `alias.:payment` and `alias.:followUp` stand for all columns that one of them
-- is read from (libs/ledger/columns.ts).
--
-- What finds a row by its id says `settled_at IS NULL` for pending, in all of these files; a check
-- of the table keeps both the same. By `state = 'pending'` the planner may take the index of what
-- is due instead, which holds hardly anything by its statistics, and every card while a provider is
-- away.

-- name: findPayment
-- Reads one payment, of whatever kind.
--
-- $1 id.
-- A row: the payment as the ledger holds it. No row: the ledger does not know the id.
SELECT transactions.:payment
FROM ledger.transactions
WHERE txn_id = $1 AND payment_id IS NULL

-- name: kindsOf
-- Tells which of some ids the ledger knows. Asked for most of the new payments of a day after the
-- claims were lost, so it reads rows of known ids alone and nothing else of them.
--
-- $1 ids.
-- A row: an id that is known, and the kind of its transaction.
SELECT txn_id, kind
FROM ledger.transactions
WHERE txn_id = ANY ($1::uuid[])

-- name: pendingIds
-- Tells all that is posted and not final, from the index of those alone.
--
-- A row: an id.
SELECT txn_id FROM ledger.transactions WHERE state = 'pending'

-- name: settledIds
-- Tells what was settled in a slice of time. The index by block ranges leads to few pages.
--
-- $1 from when on, $2 before when, $3 rows at most.
-- A row: an id.
SELECT txn_id FROM ledger.transactions WHERE settled_at >= $1 AND settled_at < $2 LIMIT $3

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
-- page begins, $5 a state, $6 a reference, $7 whether it was authorised, $8 bytes at most, $9 and
-- $10 the times since and until which; but for $8 null where not wished for.
-- A row: a payment, and whether there is one behind it. No row: the list ended before.
--
-- A page begins behind a position and not at a count, so that rows which come or go above it move
-- nothing: neither part of the position ever changes. It is sent unprepared, so that the planner
-- sees which wishes are null and takes the index of the others.
--
-- It ends before the payment with whose texts it would have more bytes, but never before the first;
-- the other fields of a payment are a kilobyte at most. The length of a text is known without
-- reading it where it is kept apart or compressed, so what the page leaves out is not read.
SELECT listed.:payment, more
FROM (
  SELECT
    *,
    row_number() OVER page AS place,
    sum(1024 + coalesce(octet_length(details), 0) + coalesce(octet_length(failure_message), 0))
      OVER page AS bytes,
    lead(txn_id) OVER page IS NOT NULL AS more
  FROM (
    SELECT * FROM ledger.transactions
    WHERE partner_id = $1 AND kind = 'payment'
      AND ($3::timestamptz IS NULL OR (created_at, txn_id) < ($3, $4::uuid))
      AND ($5::text IS NULL OR state = $5)
      AND ($6::text IS NULL OR reference = $6)
      AND ($7::boolean IS NULL OR (authorized_at IS NOT NULL) = $7)
      AND ($9::timestamptz IS NULL OR created_at >= $9)
      AND ($10::timestamptz IS NULL OR created_at < $10)
    ORDER BY created_at DESC, txn_id DESC
    LIMIT $2::integer + 1
  ) AS behind
  WINDOW page AS (ORDER BY created_at DESC, txn_id DESC ROWS UNBOUNDED PRECEDING)
) AS listed
WHERE place <= $2 AND (place = 1 OR bytes <= $8::integer)
ORDER BY created_at DESC, txn_id DESC

-- name: pendingSums
-- What a partner's payments come to that are not final.
--
-- $1 partner id.
-- A row: one currency. No row: all of them are final.
SELECT currency, sum(amount)::bigint AS amount FROM ledger.transactions
WHERE partner_id = $1 AND kind = 'payment' AND state = 'pending'
GROUP BY currency
ORDER BY currency

-- name: storeIntents
-- Stores the provider's intents on pending payments, before anybody confirms them.
--
-- $1 ids, each once, $2 the versions that were read, $3 providers, $4 the intents' ids; all of one
-- length.
-- A row: it is stored, with the version the payment has now. No row: the payment is final, of
-- another version, has an intent already, is another provider's, or another transaction holds it:
-- that intent must not be confirmed. Whoever has to know which takes the row's lock first. The
-- kind, which never changes, is compared where the row is locked: payments have indexes of their
-- own, by which the planner would read them all on a table that was never analysed.
WITH asked AS (
  SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[])
    AS asked (txn_id, version, provider, intent_id)
), free AS MATERIALIZED (
  SELECT txn_id, kind FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ledger.transactions AS payment
SET provider = asked.provider, provider_intent_id = asked.intent_id, version = payment.version + 1
FROM asked JOIN free USING (txn_id)
WHERE payment.txn_id = asked.txn_id AND payment.version = asked.version
  AND payment.settled_at IS NULL AND free.kind = 'payment'
  AND payment.provider_intent_id IS NULL
  AND coalesce(payment.provider, asked.provider) = asked.provider
RETURNING payment.txn_id, payment.version

-- name: awaitCustomer
-- Notes until when a card's customer has time to act, by the one clock that every worker shares:
-- this server's.
--
-- $1 id, $2 the version that was read, $3 milliseconds from now, $4 what to do, sealed, or null.
-- A row: the payment as it is now; its event must follow in the same transaction. No row: it was
-- noted before, or the payment is final or of another version. A time that was told before this
-- database was set back stays.
UPDATE ledger.transactions
SET action_expires_at = coalesce(told_until, now() + $3::bigint * interval '1 millisecond'),
    next_action = $4, version = version + 1,
    events = events + CASE WHEN told_until IS NULL THEN 1 ELSE 0 END
FROM (
  SELECT max(told.action_expires_at) AS told_until FROM ledger.told
  WHERE told.txn_id = $1 AND told.adopted_at IS NULL
) AS known
WHERE txn_id = $1 AND version = $2 AND settled_at IS NULL AND kind = 'payment'
  AND action_expires_at IS NULL
RETURNING transactions.:payment

-- name: authorize
-- Notes that a card's money is held and may be captured.
--
-- $1 id, $2 the version that was read, $3 whether the hold still stands, $4 the time by which it
-- certainly began and $5 until when it lasts, each null where the provider does not say.
-- A row: the payment as it is now; its event must follow in the same transaction. No row: it was
-- noted before, or the payment is final or of another version, or its customer's time is over,
-- which customerTime tells, and the hold may have begun after that. One that was told before this
-- database was set back was noted in time.
UPDATE ledger.transactions
SET authorized_at = coalesce(told_at, now()), hold_expires_at = $5, next_action = NULL,
    action_expires_at = coalesce(action_expires_at, told_until), version = version + 1,
    events = events + CASE WHEN told_at IS NULL THEN 1 ELSE 0 END
FROM (
  SELECT max(told.happened_at) FILTER (WHERE told.event_type = 'payment.authorized') AS told_at,
         max(told.action_expires_at) AS told_until
  FROM ledger.told WHERE told.txn_id = $1 AND told.adopted_at IS NULL
) AS known
WHERE txn_id = $1 AND version = $2 AND settled_at IS NULL AND kind = 'payment'
  AND authorized_at IS NULL
  AND (NOT $3::boolean OR told_at IS NOT NULL OR action_expires_at IS NULL
    OR action_expires_at > now() OR action_expires_at > $4::timestamptz)
RETURNING transactions.:payment

-- name: customerTime
-- Whether the time of a customer is over that was noted before, by the same clock.
--
-- $1 id, $2 the version that was read.
-- A row: whether it is. No row: none was noted, or the payment is authorised, final or of another
-- version.
SELECT action_expires_at <= now() AS over
FROM ledger.transactions
WHERE txn_id = $1 AND version = $2 AND settled_at IS NULL AND action_expires_at IS NOT NULL
  AND authorized_at IS NULL

-- name: noteDispute
-- Notes a dispute of a payment which is final, each once, by this server's clock.
--
-- $1 provider, $2 the intent's id, $3 the dispute's id, $4 amount, $5 reason, $6 currency, $7 the
-- dispute's id for partners, $8 by when evidence is wanted or null.
-- A row: the payment, and the trace that its request came with; its event must follow in the same
-- transaction, under the payment's lock. No row: it was noted before, or the payment is pending, of
-- another currency, or nobody's. One that was told before this database was set back keeps its
-- number and time. Of two reports at once the second one waits for that lock: it finds the same
-- dispute noted, and another one gets the next number.
WITH noted AS (
  INSERT INTO ledger.disputes (
    txn_id, dispute_id, id, partner_id, sequence, amount, reason, evidence_due_by, created_at
  )
  SELECT payment.txn_id, $3::text, $7::uuid, payment.partner_id,
         coalesce(told.sequence, payment.events + 1), $4::bigint, $5::text, $8::timestamptz,
         coalesce(told.happened_at, now())
  FROM ledger.transactions AS payment
  LEFT JOIN ledger.told
    ON told.txn_id = payment.txn_id AND told.dispute_id = $3 AND told.adopted_at IS NULL
  WHERE provider_intent_id = $2 AND provider = $1 AND kind = 'payment'
    AND payment.state <> 'pending' AND payment.currency = $6
  FOR NO KEY UPDATE OF payment
  ON CONFLICT DO NOTHING
  RETURNING txn_id AS disputed, created_at AS disputed_at, sequence AS number
)
UPDATE ledger.transactions SET version = version + 1, events = greatest(events, noted.number)
FROM noted WHERE txn_id = noted.disputed
RETURNING disputed_at, traceparent, transactions.:payment

-- name: endDispute
-- Notes how a dispute ended that is noted, once, by this server's clock.
--
-- $1 provider, $2 the intent's id, $3 the dispute's id, $4 won or lost.
-- A row: the payment's id. No row: it had ended before, or is not noted. The payment has another
-- version: whoever copies the ledger sees by it that there is something new.
WITH ended AS (
  INSERT INTO ledger.dispute_ends (txn_id, dispute_id, ended)
  SELECT payment.txn_id, disputes.dispute_id, $4::text
  FROM ledger.transactions AS payment JOIN ledger.disputes USING (txn_id)
  WHERE provider_intent_id = $2 AND provider = $1 AND kind = 'payment'
    AND disputes.dispute_id = $3
  FOR NO KEY UPDATE OF payment
  ON CONFLICT DO NOTHING
  RETURNING txn_id
)
UPDATE ledger.transactions SET version = version + 1
FROM ended WHERE transactions.txn_id = ended.txn_id
RETURNING transactions.txn_id

-- name: findDispute
-- Reads one dispute.
--
-- $1 its id for partners, $2 partner id.
-- A row: it, with its end where it has one. No row: the partner has no such dispute.
SELECT disputes.*, payment.provider, payment.currency, ends.ended, ends.ended_at
FROM ledger.disputes
JOIN ledger.transactions AS payment USING (txn_id)
LEFT JOIN ledger.dispute_ends AS ends USING (txn_id, dispute_id)
WHERE disputes.id = $1 AND disputes.partner_id = $2

-- name: listDisputes
-- Reads one page of a partner's disputes, newest first.
--
-- $1 partner id, $2 rows at most, $3 and $4 the time and id of the dispute after which the page
-- begins, or null; $5 a payment's id or null, $6 open, won, lost or null.
-- A row: a dispute as findDispute has it, and whether there is one behind it. No row: the list
-- ended before.
SELECT listed.*, payment.provider, payment.currency
FROM (
  SELECT
    *,
    row_number() OVER page AS place,
    lead(id) OVER page IS NOT NULL AS more
  FROM (
    SELECT disputes.*, ends.ended, ends.ended_at FROM ledger.disputes
    LEFT JOIN ledger.dispute_ends AS ends USING (txn_id, dispute_id)
    WHERE disputes.partner_id = $1
      AND ($3::timestamptz IS NULL OR (disputes.created_at, disputes.id) < ($3, $4::uuid))
      AND ($5::uuid IS NULL OR disputes.txn_id = $5)
      AND ($6::text IS NULL OR coalesce(ends.ended, 'open') = $6)
    ORDER BY disputes.created_at DESC, disputes.id DESC
    LIMIT $2::integer + 1
  ) AS behind
  WINDOW page AS (ORDER BY created_at DESC, id DESC)
) AS listed
JOIN ledger.transactions AS payment ON payment.txn_id = listed.txn_id
WHERE listed.place <= $2
ORDER BY listed.created_at DESC, listed.id DESC

-- name: disputeState
-- What a report of a dispute met that was not noted.
--
-- $1 provider, $2 the intent's id, $3 the dispute's id.
-- A row: the payment, and whether that dispute is noted: by another report, of which this one's
-- statement could not know. No row: it is nobody's.
SELECT txn_id, state, currency, EXISTS (
  SELECT FROM ledger.disputes
  WHERE disputes.txn_id = transactions.txn_id AND dispute_id = $3
) AS noted
FROM ledger.transactions
WHERE provider_intent_id = $2 AND provider = $1 AND kind = 'payment'

-- name: isEmpty
-- Whether nothing was ever posted. No parameters; always one row.
SELECT NOT EXISTS (SELECT FROM ledger.transactions) AS empty

-- name: findFollowUp
-- Reads one refund, capture or cancellation, and the charge that it is of.
--
-- $1 id.
-- A row: it as the ledger holds it. No row: the ledger does not know the id.
SELECT refund.:followUp
FROM ledger.transactions AS refund
LEFT JOIN ledger.transactions AS payment
  ON payment.txn_id = refund.payment_id AND payment.partner_id = refund.partner_id
WHERE refund.txn_id = $1 AND refund.payment_id IS NOT NULL

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
-- which the page begins, or null; $6 bytes at most.
-- A row: a refund, with the charge that it is of, and whether there is one behind it. No row: the
-- list ended before. It ends by its bytes as listPayments does.
SELECT refund.:followUp, refund.more
FROM (
  SELECT
    *,
    row_number() OVER page AS place,
    sum(1024 + coalesce(octet_length(details), 0) + coalesce(octet_length(failure_message), 0))
      OVER page AS bytes,
    lead(txn_id) OVER page IS NOT NULL AS more
  FROM (
    SELECT * FROM ledger.transactions
    WHERE payment_id = $1 AND partner_id = $2 AND kind = 'refund'
      AND ($4::timestamptz IS NULL OR (created_at, txn_id) < ($4, $5::uuid))
    ORDER BY created_at DESC, txn_id DESC
    LIMIT $3::integer + 1
  ) AS behind
  WINDOW page AS (ORDER BY created_at DESC, txn_id DESC ROWS UNBOUNDED PRECEDING)
) AS refund
LEFT JOIN ledger.transactions AS payment
  ON payment.txn_id = refund.payment_id AND payment.partner_id = refund.partner_id
WHERE refund.place <= $3 AND (refund.place = 1 OR refund.bytes <= $6::integer)
ORDER BY refund.created_at DESC, refund.txn_id DESC

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

-- name: takeDue
-- Takes pending transactions whose time has come, longest due first.
--
-- $1 how many at most, $2 the least milliseconds until each is due again, $3 `settled-here`: those
-- that come to an end in the ledger alone, which are book transfers, and refunds yet to be
-- reserved; `at`: those that the provider $4 is asked about; `all`.
-- A row: a transaction that only the caller has now, under a new version; it is due again after a
-- quarter of its age, a minute at most. No row: nothing is due.
--
-- An authorised one may wait for weeks, and is due again after as long as its hold has lasted, or
-- has been over: an hour at least, a day at most, a tenth sooner or later, and within half an hour
-- of the hold's end. That is about a dozen looks at one of seven days.
--
-- Sent unprepared, so that the planner sees $3 and goes to the wanted rows in the index: while a
-- provider is away it is full of rows that are due there.
WITH due AS (
  SELECT txn_id FROM ledger.transactions
  WHERE state = 'pending' AND due_at <= now()
    AND (
      $3::text = 'all'
      OR $3::text = 'settled-here' AND provider IS NULL
      OR $3::text = 'at' AND provider = $4::text
    )
  ORDER BY due_at
  LIMIT $1
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ledger.transactions AS target
SET version = version + 1,
    due_at = CASE
      WHEN authorized_at IS NULL THEN now() + greatest(
        $2::integer * interval '1 millisecond',
        least(interval '1 minute', (now() - created_at) / 4)
      )
      ELSE least(
        now() + (0.9 + 0.2 * random()) * greatest(
          interval '1 hour',
          least(interval '1 day', now() - CASE
            WHEN hold_expires_at <= now() THEN hold_expires_at ELSE authorized_at
          END)
        ),
        CASE WHEN hold_expires_at > now()
          THEN hold_expires_at + (1 + random()) * interval '15 minutes' END
      )
    END
FROM due WHERE target.txn_id = due.txn_id
RETURNING target.txn_id, target.kind, target.version, target.traceparent

-- name: lookAtNews
-- Tells of the provider's events what they are about: most charges are final, and as they were
-- reported, by the time that the provider reports them.
--
-- $1 providers, $2 the intents' ids, $3 the payments whose money each intent is by its own word, or
-- null; of one length. A row for each, in their order. `waits`: something is pending that the event
-- is about, as wakeDue would find it. `paid_after_end`: that payment had ended without this money,
-- because it was not paid, or by another intent.
-- Looked up one by one (OFFSET 0): joined with the table, they could be a walk through it.
SELECT found.waits, found.paid_after_end
FROM unnest($1::text[], $2::text[], $3::uuid[]) WITH ORDINALITY
  AS asked (provider, intent_id, paid_for, nth)
CROSS JOIN LATERAL (
  SELECT EXISTS (
    SELECT FROM ledger.transactions AS payment
    WHERE provider_intent_id = asked.intent_id AND provider = asked.provider AND (
      settled_at IS NULL OR EXISTS (
        SELECT FROM ledger.transactions AS refund
        WHERE refund.payment_id = payment.txn_id AND refund.settled_at IS NULL
          AND refund.amount IS NOT NULL
      )
    )
  ) OR EXISTS (
    SELECT FROM ledger.transactions
    WHERE txn_id = asked.paid_for AND payment_id IS NULL AND settled_at IS NULL
      AND provider = asked.provider AND provider_intent_id IS NULL
  ) AS waits, EXISTS (
    SELECT FROM ledger.transactions
    WHERE txn_id = asked.paid_for AND payment_id IS NULL AND settled_at IS NOT NULL AND (
      state NOT IN ('succeeded', 'captured')
      OR provider IS DISTINCT FROM asked.provider
      OR provider_intent_id IS DISTINCT FROM asked.intent_id
    )
  ) AS paid_after_end
  OFFSET 0
) AS found
ORDER BY asked.nth

-- name: wakeDue
-- Remembers an event of the provider and lets the pending transactions be due that it is about.
--
-- $1 provider, $2 event id, $3 event type, $4 the intent's id, $5 the payment that it paid or null:
-- what one call charged has no intent on its row while nobody has its answer.
-- Always one row. `waits`: there is such a transaction; otherwise nothing was written. `remembered`
-- is false for an event that came before, and then nothing was written either. `woken`: the ids of
-- those that are due now; their version stays, so a worker that is at one goes on.
--
-- A refund is woken only once it is reserved: before, the provider was not asked for it.
-- Refunds are locked before their payment and in the order of their ids, as everywhere, so that no
-- two statements wait for each other. A second event with the same id waits at the insert until the
-- first one's transaction ends.
WITH payment AS (
  SELECT txn_id FROM ledger.transactions WHERE provider_intent_id = $4::text AND provider = $1::text
  UNION ALL
  SELECT txn_id FROM ledger.transactions
  WHERE txn_id = $5::uuid AND payment_id IS NULL
    AND provider = $1::text AND provider_intent_id IS NULL
), waiting AS MATERIALIZED (
  SELECT txn_id FROM ledger.transactions
  WHERE settled_at IS NULL AND txn_id IN (
    SELECT txn_id FROM payment
    UNION ALL
    SELECT refund.txn_id FROM ledger.transactions AS refund
    JOIN payment ON refund.payment_id = payment.txn_id
    WHERE refund.amount IS NOT NULL
  )
  ORDER BY payment_id IS NULL, txn_id
  FOR NO KEY UPDATE
), remembered AS (
  INSERT INTO ledger.provider_events (provider, event_id, event_type, intent_id)
  SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM waiting)
  ON CONFLICT DO NOTHING
  RETURNING event_id
), woken AS (
  UPDATE ledger.transactions AS target
  SET due_at = least(target.due_at, now())
  FROM waiting, remembered
  WHERE target.txn_id = waiting.txn_id
  RETURNING target.txn_id
)
SELECT
  EXISTS (SELECT FROM waiting) AS waits,
  EXISTS (SELECT FROM remembered) AS remembered,
  ARRAY(SELECT txn_id FROM woken) AS woken
