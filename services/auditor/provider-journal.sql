-- The auditor's copy of the providers' journals (provider_journal), and how far each of their lists
-- was walked (provider_walks).

-- name: asksAProvider
-- Whether there is anything to compare with a provider, $1. Always one row.
SELECT EXISTS (
    SELECT FROM ledger.transactions WHERE provider = $1 AND payment_method IS NOT NULL
  ) OR EXISTS (SELECT FROM auditor.provider_walks WHERE provider = $1) AS asks

-- name: readWalked
-- Since when the journal may lack something of a provider, $1. Always one row.
SELECT greatest(
  (SELECT min(walked_at) FROM provider_walks WHERE provider = $1),
  (SELECT min(created_at) FROM ledger.transactions
   WHERE provider = $1 AND payment_method IS NOT NULL)
) AS "walkedAt"

-- name: beginWalks
-- Has the lists of a provider, $1, walked that never were; $2 their kinds.
INSERT INTO provider_walks (provider, kind, since, known_until)
SELECT $1, kind, since, since FROM unnest($2::text[]) AS kind, provider_beginning
ON CONFLICT DO NOTHING

-- name: beginWholeWalk
-- Has every list walked from its beginning, also where a walk is under way.
--
-- Rounded down, because what is met from now on must not seem older.
UPDATE provider_walks SET
  known_until = since, newest = NULL, cursor = NULL,
  everything_since = date_trunc('milliseconds', clock_timestamp())

-- name: readWalk
-- How far a list was read.
--
-- $1 kind, $2 provider.
-- Always one row: the cursor of a walk under way or null, and how far everything is known.
SELECT cursor, known_until AS "knownUntil" FROM provider_walks WHERE kind = $1 AND provider = $2

-- name: restartWalk
-- Begins a walk again whose cursor the provider does not know any more.
--
-- $1 kind, $2 the cursor, $3 provider.
UPDATE provider_walks SET newest = NULL, cursor = NULL
WHERE kind = $1 AND cursor = $2 AND provider = $3

-- name: recordPage
-- Records a page of the provider's list in the journal, and moves the walk on.
--
-- $1 kind, $2 a JSON array of objects with the fields below, $3 the cursor by which the page was
-- asked for or null, $4 that of the next page or null, $5 how far everything was known then, $6 the
-- provider.
-- A row: the walk went on from here. No row: another one took it on meanwhile, or began it again;
-- the page is in the journal all the same.
--
-- What carries no id of ours is somebody else's and left out, but for refunds of intents that are
-- ours. What is final stays so when an older answer comes late. A clock of the provider's that ran
-- ahead once does not make later ones seem known.
WITH page AS (
  SELECT * FROM json_to_recordset($2::json) AS row (
    id text, status text, waits_for text, amount bigint, currency text, created_at timestamptz,
    intent_id text, txn_id uuid, partner_id text
  )
), recorded AS (
  INSERT INTO provider_journal AS known
    (provider, kind, id, status, waits_for, amount, currency, created_at, intent_id, txn_id,
     partner_id)
  SELECT $6, $1, id, status, waits_for, amount, currency, created_at, intent_id, txn_id, partner_id
  FROM page
  WHERE txn_id IS NOT NULL
    OR EXISTS (SELECT FROM provider_journal AS ours
               WHERE ours.kind = 'intent' AND ours.id = page.intent_id AND ours.provider = $6)
  ORDER BY id
  ON CONFLICT (kind, id, provider) DO UPDATE SET
    (status, waits_for) = (
      SELECT CASE WHEN ended THEN known.status ELSE excluded.status END,
             CASE WHEN NOT ended THEN excluded.waits_for END
      FROM (SELECT known.status IN ('succeeded', 'failed')
               AND excluded.status IN ('pending', 'unconfirmed')
      ) AS t (ended)
    ),
    amount = excluded.amount,
    currency = excluded.currency,
    intent_id = excluded.intent_id,
    txn_id = excluded.txn_id,
    partner_id = excluded.partner_id,
    seen_at = now()
)
UPDATE provider_walks SET
  newest = CASE WHEN $4::text IS NOT NULL
    THEN greatest(newest, (SELECT max(created_at) FROM page)) END,
  known_until = CASE WHEN $4::text IS NOT NULL THEN known_until
    ELSE least(now(), greatest(known_until, newest, (SELECT max(created_at) FROM page))) END,
  cursor = $4,
  walked_at = CASE WHEN $4::text IS NOT NULL THEN walked_at ELSE now() END
WHERE kind = $1 AND provider = $6
  AND cursor IS NOT DISTINCT FROM $3::text AND known_until = $5::timestamptz
RETURNING everything_since AS "everythingSince"

-- name: endWholeWalk
-- Removes from the journal what a walk over everything did not meet.
--
-- $1 kind, $2 when that walk began, $3 provider.
WITH ended AS (
  UPDATE provider_walks SET everything_since = NULL
  WHERE kind = $1 AND everything_since = $2::timestamptz AND provider = $3
  RETURNING kind
)
DELETE FROM provider_journal
WHERE kind IN (SELECT kind FROM ended) AND provider = $3 AND seen_at < $2::timestamptz

-- name: ownIntents
-- Which of some intents are ours.
--
-- $1 their ids, $2 the provider.
-- A row: the id of one that is in the journal.
SELECT id FROM auditor.intents WHERE id = ANY($1::text[]) AND provider = $2

-- name: findDoubtful
-- What of the provider's does not agree with the ledger only because it has changed since it was
-- listed, or was left out: it is asked about by its id before anybody calls it drift. What has
-- been waiting longest comes first, because a check calls it drift first; what stays doubtful
-- whatever the provider says, as an intent that nobody confirms, waits anew once it was looked at.
--
-- $1 rows at most, $2 the provider.
-- A row: kind and id of one to ask about.
SELECT kind, id FROM (
  -- Charges of payments that succeeded, and that nobody has seen succeed.
  SELECT 'charge' AS kind, provider_charge_id AS id, settled_at AS since, provider
  FROM ledger.transactions
  WHERE kind = 'payment' AND state IN ('succeeded', 'captured') AND provider_charge_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM auditor.charges
                    WHERE charges.id = provider_charge_id AND charges.status = 'succeeded'
                      AND charges.provider = transactions.provider)
  UNION ALL
  -- Refunds that ended otherwise than what was seen of them.
  SELECT 'refund', provider_refund_id, settled_at, provider
  FROM ledger.transactions
  WHERE kind = 'refund' AND state <> 'pending' AND provider_refund_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM auditor.refunds
                    WHERE refunds.id = provider_refund_id AND refunds.status = state
                      AND refunds.provider = transactions.provider)
  UNION ALL
  -- Disputes that ended otherwise than what was seen of them.
  SELECT 'dispute', disputes.id, dispute_ends.ended_at, disputes.provider
  FROM ledger.dispute_ends
  JOIN ledger.transactions USING (txn_id)
  JOIN auditor.disputes
    ON disputes.id = dispute_ends.dispute_id
    AND disputes.intent_id = transactions.provider_intent_id
    AND disputes.provider = transactions.provider
  WHERE disputes.status <> CASE dispute_ends.ended WHEN 'lost' THEN 'succeeded' ELSE 'failed' END
  UNION ALL
  -- Charges under way of payments that failed or were cancelled.
  SELECT 'charge', charges.id, charges.seen_at, charges.provider
  FROM auditor.charges JOIN ledger.transactions USING (txn_id)
  WHERE charges.status = 'pending' AND transactions.state IN ('failed', 'canceled')
  UNION ALL
  -- Intents that no row names: whoever made one may have died, but nobody may confirm it. Those of
  -- payments that have ended, which were listed before that.
  SELECT 'intent', intents.id, intents.seen_at, intents.provider
  FROM auditor.intents
  WHERE intents.status IN ('unconfirmed', 'pending')
    AND NOT EXISTS (SELECT FROM ledger.transactions
                    WHERE transactions.txn_id = intents.txn_id
                      AND transactions.provider_intent_id = intents.id
                      AND transactions.provider = intents.provider
                      AND transactions.state = 'pending')
  UNION ALL
  -- Intents of payments that have ended, and that no list has shown.
  SELECT 'intent', provider_intent_id, settled_at, provider
  FROM ledger.transactions
  WHERE kind = 'payment' AND state <> 'pending' AND provider_intent_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM auditor.intents
                    WHERE intents.id = provider_intent_id
                      AND intents.provider = transactions.provider)
) AS doubtful
WHERE provider = $2
ORDER BY since, kind DESC
LIMIT $1

-- name: findEndedToReview
-- Charges and refunds that have ended alike in both, the journal and the ledger, those seen longest
-- ago first: a bank may send one back weeks later, and no list by time shows that. Nobody has
-- looked at them for an hour.
--
-- $1 rows at most, $2 the provider, $3 the kinds that may be undone there.
-- A row: kind and id of one to ask about.
SELECT journal.kind, journal.id
FROM auditor.provider_journal AS journal JOIN ledger.transactions USING (txn_id)
WHERE journal.kind = ANY ($3::text[]) AND journal.status = transactions.state
  AND journal.provider = $2
  AND transactions.settled_at > now() - interval '30 days'
  AND journal.seen_at < now() - interval '1 hour'
ORDER BY journal.seen_at
LIMIT $1

-- name: findUnfinishedToReview
-- Intents and refunds that are not final in the journal and whose transactions are pending, those
-- seen longest ago first: an intent that was listed while it was being confirmed may wait for its
-- customer by now, and one that waited may have ended. Nobody has looked at them for some seconds,
-- or a minute where the provider said whom it waits for. What waits for its partner comes last: it
-- may do so for days, and the ledger knows first when it ends. So do disputes, which are looked at
-- every hour: a bank takes weeks to decide, and the report of that may be lost.
--
-- $1 rows at most, $2 the provider.
-- A row: kind and id of one to ask about.
SELECT kind, id FROM (
  SELECT journal.kind, journal.id, journal.seen_at,
         journal.waits_for IS NOT DISTINCT FROM 'partner' AS may_wait
  FROM ledger.transactions
  JOIN auditor.provider_journal AS journal
    ON journal.kind = CASE transactions.kind WHEN 'refund' THEN 'refund' ELSE 'intent' END
   AND journal.id = CASE transactions.kind
     WHEN 'refund' THEN transactions.provider_refund_id
     ELSE transactions.provider_intent_id
   END
   AND journal.provider = transactions.provider
  WHERE transactions.state = 'pending' AND journal.provider = $2
    AND journal.status IN ('unconfirmed', 'pending')
    AND journal.seen_at < now()
      - CASE WHEN journal.waits_for IS NULL THEN interval '5 seconds' ELSE interval '1 minute' END
  UNION ALL
  SELECT kind, id, seen_at, true
  FROM auditor.provider_journal
  WHERE kind = 'dispute' AND status = 'pending' AND provider = $2
    AND seen_at < now() - interval '1 hour'
) AS unfinished
ORDER BY may_wait, seen_at
LIMIT $1

-- name: noteRead
-- Records in the journal what the provider answered about one.
--
-- $1 a JSON object with the fields below, $2 the provider.
INSERT INTO provider_journal AS known
  (provider, kind, id, status, waits_for, amount, currency, created_at, intent_id, txn_id, partner_id)
SELECT $2, kind, id, status, waits_for, amount, currency, created_at, intent_id, txn_id, partner_id
FROM json_to_record($1::json) AS row (
  kind text, id text, status text, waits_for text, amount bigint, currency text,
  created_at timestamptz, intent_id text, txn_id uuid, partner_id text
)
ON CONFLICT (kind, id, provider) DO UPDATE SET
  status = excluded.status, waits_for = excluded.waits_for, amount = excluded.amount,
  seen_at = now()

-- name: forgetOne
-- Removes from the journal what the provider has no longer.
--
-- $1 kind, $2 id, $3 provider.
DELETE FROM provider_journal WHERE kind = $1 AND id = $2 AND provider = $3
