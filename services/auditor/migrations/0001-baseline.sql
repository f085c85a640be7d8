-- What the auditor saw with its own eyes: the topic of accepted payments, its dead letters, the
-- events as published, and the provider's journal. Everything else it reads where it lies.

-- Every request that the topic of accepted payments holds, once, however often it was appended.
-- A refund or capture need not say how much: what is not said is null.
CREATE TABLE accepted (
  txn_id uuid NOT NULL,
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  kind text NOT NULL CHECK (kind ~ '^[a-z]{3,12}$'),
  partner_id text NOT NULL,
  -- The payment of a refund, capture or cancellation.
  payment_id uuid,
  currency text,
  amount bigint,
  -- Of what the ledger keeps of the request and does not compute with: see hash_rest.
  rest bytea NOT NULL CHECK (octet_length(rest) = 32),
  -- Where it was seen first.
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (txn_id, fingerprint),
  CHECK ((kind IN ('refund', 'capture', 'cancellation')) = (payment_id IS NOT NULL)),
  CHECK (payment_id IS NOT NULL OR amount IS NOT NULL AND currency IS NOT NULL)
);
-- What came in a window of time, for the audit; here and below. Rows come in that order, so an index
-- by block ranges finds them and costs next to nothing.
CREATE INDEX accepted_by_time ON accepted USING brin (first_seen) WITH (autosummarize = on);

-- How far that topic was read, by partition. It moves in the transaction that keeps the records, so
-- what is gone before it was passed was never kept.
CREATE TABLE accepted_positions (
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  -- The offset that is expected next.
  next_offset bigint NOT NULL CHECK (next_offset >= 0),
  -- When nothing was missing before it last.
  whole_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (topic, kafka_partition)
);

-- Records that Kafka lost before they were read: accepted payments of which only their partners
-- and, for a day, the claims know. A row stays, and is drift until a person acknowledges it: an
-- `acknowledge` of `lost:<id>` among the operators' acts.
CREATE TABLE accepted_lost (
  lost_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  -- Up to, and without, to_offset.
  from_offset bigint NOT NULL,
  to_offset bigint NOT NULL,
  -- The log begins later, ends earlier, or has other records at these offsets than it had.
  why text NOT NULL CHECK (why IN ('dropped', 'cut-off', 'begun-again')),
  -- They were lost between these two.
  whole_at timestamptz NOT NULL,
  found_at timestamptz NOT NULL DEFAULT now(),
  CHECK (from_offset < to_offset)
);

-- Completed claims that nothing accounted for when they were read. One whose record was only late
-- is forgotten; one that is confirmed stays, and is drift until its payment is posted after all or
-- a person acknowledges it: `claim:<txn_id>`, or `lost:<id>` of the loss that it is laid to.
CREATE TABLE claims_unaccounted (
  txn_id uuid NOT NULL,
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  partner_id text NOT NULL,
  -- The gateway's clock.
  accepted_at timestamptz NOT NULL,
  -- Where its record would be, by its key, and the end of that partition once it was completed.
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  before_offset bigint NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  -- When workers and auditor had passed that end without it.
  confirmed_at timestamptz,
  lost_id bigint REFERENCES accepted_lost,
  PRIMARY KEY (txn_id, fingerprint)
);
CREATE INDEX claims_in_doubt ON claims_unaccounted (seen_at) WHERE confirmed_at IS NULL;

-- How far the walk over the claims is, however many auditors run. `step` is the fence: one that was
-- overtaken moves nothing.
CREATE TABLE claim_walk (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  step bigint NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT '-infinity',
  -- The store's own; null at the beginning of a walk.
  cursor text,
  -- Why the store did not answer the last step, and when it answered one last.
  trouble text,
  answered_at timestamptz NOT NULL DEFAULT now(),
  -- When a whole walk was over last.
  walked_at timestamptz
);
INSERT INTO claim_walk DEFAULT VALUES;

-- Records of that topic that are no payment. Each must end as a dead letter.
CREATE TABLE accepted_refused (
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  reason text NOT NULL,
  detail text NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (topic, kafka_partition, kafka_offset)
);

-- Dead letters by the record they were; a record that was dead-lettered twice is one.
CREATE TABLE dead_letters (
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  reason text NOT NULL,
  -- Null when the record is no payment.
  txn_id uuid,
  fingerprint bytea CHECK (octet_length(fingerprint) = 32),
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (topic, kafka_partition, kafka_offset),
  CHECK ((txn_id IS NULL) = (fingerprint IS NULL))
);
CREATE INDEX dead_letters_by_transaction ON dead_letters (txn_id, fingerprint);

-- Every event that came from the broker. `copies` counts deliveries and not publishes: a delivery
-- that the broker repeats is counted again, and so is one whose acknowledgement was lost.
CREATE TABLE published (
  event_id uuid PRIMARY KEY,
  event_type text NOT NULL,
  txn_id uuid NOT NULL,
  payment_id uuid NOT NULL,
  partner_id text NOT NULL,
  sequence integer,
  payload_hash text NOT NULL,
  copies integer NOT NULL DEFAULT 1,
  -- Copies whose bytes differ from the first one's.
  altered integer NOT NULL DEFAULT 0,
  -- Null where a refund failed because nothing of it fitted.
  currency text,
  amount bigint,
  first_seen timestamptz NOT NULL DEFAULT now(),
  last_seen timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX published_by_transaction ON published (txn_id);
CREATE INDEX published_by_time ON published USING brin (first_seen) WITH (autosummarize = on);
CREATE INDEX published_altered ON published (event_id) WHERE altered > 0;

-- Messages that are no event, in the form that every consumer has. The other tables of an inbox the
-- auditor has not: it applies nothing and counts every copy, which is just what an inbox is there to
-- keep away.
CREATE TABLE refused_messages (PRIMARY KEY (message_id, consumer))
INHERITS (consumers.refused_messages);

-- What each provider itself says it charged and gave back, as its lists showed it: the other side of
-- the ledger. It is a copy, and can be read again whole at any time.
CREATE TABLE provider_journal (
  provider text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('intent', 'charge', 'refund', 'dispute')),
  -- The provider's.
  id text NOT NULL,
  status text NOT NULL CHECK (status IN ('unconfirmed', 'pending', 'succeeded', 'failed')),
  -- Who has to act before a pending one ends, where the provider says so.
  waits_for text CHECK (waits_for IN ('customer', 'bank', 'partner')),
  amount bigint NOT NULL,
  currency text NOT NULL,
  -- The provider's clock, whole seconds.
  created_at timestamptz NOT NULL,
  intent_id text,
  -- What every object of ours carries; null for a dispute, and a refund that somebody else made, of a
  -- charge of ours.
  txn_id uuid,
  partner_id text,
  -- When the provider reported it last.
  seen_at timestamptz NOT NULL DEFAULT now(),
  -- When the provider first said what it says now. A list may be read days after what is in it was
  -- made.
  changed_at timestamptz NOT NULL DEFAULT now(),
  -- An id is looked for first, and is hardly ever two providers'.
  PRIMARY KEY (kind, id, provider),
  CHECK (status = 'pending' OR waits_for IS NULL)
);
CREATE INDEX provider_journal_by_transaction ON provider_journal (txn_id, kind);
CREATE INDEX provider_journal_by_time ON provider_journal USING brin (changed_at)
  WITH (autosummarize = on);
-- For whoever looks again at those that a bank has yet to decide.
CREATE INDEX provider_journal_open_disputes ON provider_journal (provider, seen_at)
  WHERE kind = 'dispute' AND status = 'pending';
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.changed_at := now();
  RETURN NEW;
END
$$;
CREATE TRIGGER journal_notes_changes BEFORE UPDATE ON provider_journal
  FOR EACH ROW WHEN (
    (NEW.status, NEW.waits_for, NEW.amount, NEW.currency, NEW.intent_id, NEW.txn_id, NEW.partner_id)
    IS DISTINCT FROM
    (OLD.status, OLD.waits_for, OLD.amount, OLD.currency, OLD.intent_id, OLD.txn_id, OLD.partner_id)
  ) EXECUTE FUNCTION note_change();
CREATE VIEW intents AS SELECT * FROM provider_journal WHERE kind = 'intent';
CREATE VIEW charges AS SELECT * FROM provider_journal WHERE kind = 'charge';
CREATE VIEW refunds AS SELECT * FROM provider_journal WHERE kind = 'refund';
CREATE VIEW disputes AS SELECT * FROM provider_journal WHERE kind = 'dispute';

-- How far each list of each provider was read. A list is newest first, so it is known to its end only when it was
-- walked back to where an earlier walk began; one that was interrupted goes on where it was.
CREATE TABLE provider_walks (
  provider text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('intent', 'charge', 'refund', 'dispute')),
  -- Older ones are none of ours: this system did not exist.
  since timestamptz(3) NOT NULL,
  -- All that was made before this is in the journal. The provider's clock.
  known_until timestamptz(3) NOT NULL,
  -- Of a walk under way: the newest that it has seen, and where its next page begins.
  newest timestamptz(3),
  cursor text,
  -- Of a walk over everything: when it began. What it does not meet is no longer there.
  everything_since timestamptz(3),
  -- When the last walk came to its end.
  walked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (provider, kind)
);
-- From when on anything of a provider's may be this system's: from when it was set up.
CREATE TABLE provider_beginning (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  since timestamptz(3) NOT NULL
);
-- Clocks differ by less than an hour.
INSERT INTO provider_beginning (since)
SELECT least(now(), (SELECT min(created_at) FROM ledger.transactions)) - interval '1 hour';

-- One scheduled audit however many auditors run: whoever finds it due takes the run, and what it
-- found is here for all of them to show.
CREATE TABLE scheduled_audit (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Audits begun. It is also the fence: one that was overtaken leaves no result.
  run bigint NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT '-infinity',
  -- Of the last audit that came to its end.
  took_ms integer NOT NULL DEFAULT 0,
  ended_at timestamptz,
  -- How many offending ids by check, 100 per check at most.
  drift json NOT NULL DEFAULT '{}',
  in_flight json NOT NULL DEFAULT '{}',
  -- Times by check, of the oldest each: by that a backlog that grows old is distinguished from one
  -- that is always new.
  in_flight_since json NOT NULL DEFAULT '{}',
  -- The same of what waits for others.
  waiting json NOT NULL DEFAULT '{}',
  waiting_since json NOT NULL DEFAULT '{}'
);
INSERT INTO scheduled_audit DEFAULT VALUES;

-- Windows of time whose rows have all come to their end and were compared in every layer: closed once,
-- and only added to. A row says what all closed slices come to with this one, as the audit shows it,
-- and its hash is over that and over the hash of the one before it.
CREATE TABLE audit_slices (
  -- In the order in which they were closed, without a gap.
  nth integer PRIMARY KEY CHECK (nth >= 1),
  from_time timestamptz NOT NULL,
  until_time timestamptz NOT NULL,
  counts json NOT NULL,
  sums json NOT NULL,
  hash bytea NOT NULL CHECK (octet_length(hash) = 32),
  closed_at timestamptz NOT NULL DEFAULT now(),
  CHECK (from_time < until_time),
  CONSTRAINT closed_once EXCLUDE USING gist (tstzrange(from_time, until_time) WITH &&)
);
CREATE TRIGGER slices_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_slices
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

CREATE FUNCTION slice_hash(
  previous bytea, nth integer, since timestamptz, until timestamptz, counts json, sums json
) RETURNS bytea
LANGUAGE sql STABLE AS $$
  SELECT sha256(convert_to(concat_ws(
    '|', encode(previous, 'hex'), nth, extract(epoch FROM since), extract(epoch FROM until), counts, sums
  ), 'UTF8'))
$$;

-- Closed slices that were found otherwise than they were closed: every audit looks at them again.
CREATE TABLE doubted_slices (
  nth integer PRIMARY KEY,
  since timestamptz NOT NULL DEFAULT now()
);

-- How far the audit of all closed slices is; one that was interrupted goes on there.
CREATE TABLE full_audit (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  next_nth integer NOT NULL DEFAULT 1,
  -- Null while none is under way.
  begun_at timestamptz
);
INSERT INTO full_audit DEFAULT VALUES;

-- What people did to the system by hand, such as redriving a dead letter: who, when and why. It is
-- only added to.
CREATE TABLE operator_acts (
  act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  act text NOT NULL,
  -- What it was done to, e.g. `outbox:<event id>`.
  subject text NOT NULL,
  done_by text NOT NULL CHECK (done_by <> ''),
  why text,
  done_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX operator_acts_by_subject ON operator_acts (subject, act_id);
CREATE TRIGGER acts_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_acts
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

-- Until the transaction's end nobody else acts on this subject.
CREATE FUNCTION lock_subject(subject text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('act of an operator on ' || subject, 0))
$$;
REVOKE EXECUTE ON FUNCTION lock_subject(text) FROM PUBLIC;

-- Transactions whose records a person acknowledged as lost, and when last: what the auditor had
-- read and no worker (`accepted:<txn_id>`), or a worker and no auditor (`ledger:<txn_id>`).
CREATE VIEW acknowledged AS
SELECT split_part(subject, ':', 1) AS had_by,
       CASE WHEN subject ~ '^(accepted|ledger):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
         THEN split_part(subject, ':', 2)::uuid END AS txn_id,
       max(done_at) AS done_at
FROM operator_acts
WHERE act = 'acknowledge'
GROUP BY subject;

-- Money of a payment that had ended without it, or was paid by another intent, and that an operator
-- gave back (`give-back` of `intent:<txn_id>/<intent id>`): the charge, and the refund of all of it,
-- which carries the payment's id where a refund of a partner's carries its own. What was only held
-- and is let go, or never moved, has no refund.
CREATE VIEW returned AS
SELECT charges.id AS charge_id, refunds.id AS refund_id
FROM (
  SELECT DISTINCT subject,
         CASE WHEN subject ~ '^intent:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/'
           THEN substr(subject, 8, 36)::uuid END AS txn_id
  FROM operator_acts
  WHERE act = 'give-back'
) AS acts
CROSS JOIN LATERAL (
  SELECT * FROM provider_journal
  WHERE kind = 'charge' AND provider_journal.txn_id = acts.txn_id AND status <> 'pending'
    AND subject = concat('intent:', acts.txn_id, '/', intent_id)
  OFFSET 0
) AS charges
LEFT JOIN LATERAL (
  SELECT * FROM provider_journal
  WHERE kind = 'refund' AND provider_journal.txn_id = acts.txn_id AND status = 'succeeded'
    AND charges.status = 'succeeded'
    AND (provider, intent_id, amount, currency)
      = (charges.provider, charges.intent_id, charges.amount, charges.currency)
  OFFSET 0
) AS refunds ON true
WHERE charges.status = 'failed' OR refunds.id IS NOT NULL;

-- The ids of this system once more, in another language and by another hand: SHA-256 over each part
-- behind its length, cut to 16 bytes and marked as UUIDv8 (RFC 9562).
CREATE FUNCTION derive_id(VARIADIC parts text[]) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  part text;
  hashed bytea := '';
  id bytea;
BEGIN
  FOREACH part IN ARRAY parts LOOP
    hashed := hashed || int4send(octet_length(part)) || convert_to(part, 'UTF8');
  END LOOP;
  id := substr(sha256(hashed), 1, 16);
  id := set_byte(id, 6, get_byte(id, 6) & 15 | 128);
  id := set_byte(id, 8, get_byte(id, 8) & 63 | 128);
  RETURN encode(id, 'hex')::uuid;
END
$$;

-- A time as partners are told it: RFC 3339, UTC, milliseconds.
CREATE FUNCTION as_told(at timestamptz) RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- The same read back; null for any other text.
CREATE FUNCTION time_told(told text) RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN CASE WHEN auditor.as_told(told::timestamptz) = told THEN told::timestamptz END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;

-- Metadata as partners are told it: sorted by name as JavaScript compares texts, by their UTF-16
-- units, so that what is beyond the first 65 536 characters comes right after U+D7FF; and before all
-- others the names that JavaScript takes for the index of an array.
CREATE FUNCTION sorted_metadata(metadata json) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT concat('{', string_agg(
    concat(to_json(key), ':', to_json(value)), ','
    ORDER BY
      CASE WHEN key ~ '^(0|[1-9][0-9]{0,9})$' THEN
        CASE WHEN key::bigint < 4294967295 THEN key::bigint END
      END NULLS LAST,
      regexp_replace(key, '([\U00010000-\U0010FFFF])', U&'\D7FF' || '\1', 'g') COLLATE "C"
  ), '}')
  FROM json_each_text(metadata)
$$;

-- A hash of what the ledger keeps of a request as it came, so that the evidence of it is short. What
-- was not sent is null, and another text than the empty one.
CREATE FUNCTION hash_rest(
  response_version integer, created_at timestamptz, payment_method text, reference text, details text
) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT sha256(convert_to(concat(
    response_version, ' ', extract(epoch FROM created_at), E'\n', '=' || payment_method,
    E'\n', '=' || reference, E'\n', '=' || details
  ), 'UTF8'))
$$;

-- Whether a request that was answered is known to have gone on: it is in the topic as it was read,
-- from where other checks follow it, in the ledger, a dead letter, or one that lost its key and was
-- told so.
CREATE FUNCTION is_accounted(of_txn_id uuid, of_fingerprint bytea) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
      SELECT FROM auditor.accepted WHERE txn_id = of_txn_id AND fingerprint = of_fingerprint
    ) OR EXISTS (
      SELECT FROM ledger.transactions WHERE txn_id = of_txn_id AND fingerprint = of_fingerprint
    ) OR EXISTS (
      SELECT FROM auditor.dead_letters WHERE txn_id = of_txn_id AND fingerprint = of_fingerprint
    ) OR EXISTS (
      SELECT FROM ledger.outbox WHERE event_id = auditor.derive_id(
        'event', of_txn_id::text, 'payment.key_conflict', encode(of_fingerprint, 'hex')
      )
    )
$$;

-- Whether an event that is no longer in the outbox was removed by age: the ledger has the
-- transaction whose end it reports, or whose customer has to act, or that was authorised or
-- disputed, its id follows from that, and it was settled, accepted or disputed before what was
-- removed. The clock that settled is a worker's, so it
-- may differ from the database's by some minutes.
CREATE FUNCTION left_outbox(of_txn_id uuid, of_type text, of_event_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM ledger.disputes, ledger.outbox_horizon
    WHERE disputes.txn_id = of_txn_id AND of_type = 'payment.disputed'
      AND disputes.created_at < outbox_horizon.reaped_before + interval '1 hour'
      AND of_event_id = auditor.derive_id('event', of_txn_id::text, of_type, dispute_id)
  ) OR EXISTS (
    SELECT FROM ledger.transactions, ledger.outbox_horizon
    WHERE transactions.txn_id = of_txn_id
      AND CASE of_type
        WHEN 'payment.requires_action' THEN
          transactions.action_expires_at IS NOT NULL
          AND transactions.created_at < outbox_horizon.reaped_before + interval '1 hour'
        WHEN 'payment.authorized' THEN
          transactions.authorized_at IS NOT NULL
          AND transactions.created_at < outbox_horizon.reaped_before + interval '1 hour'
        ELSE
          transactions.kind || '.' || transactions.state = of_type
          AND transactions.settled_at < outbox_horizon.reaped_before + interval '1 hour'
      END
      AND of_event_id = auditor.derive_id('event', of_txn_id::text, of_type)
  )
$$;

-- Transactions that were settled from `since` on and before `until`. Those that are pending are in the
-- window that has no end.
CREATE FUNCTION settled_between(since timestamptz, until timestamptz)
RETURNS SETOF ledger.transactions
LANGUAGE sql STABLE AS $$
  SELECT * FROM ledger.transactions
  WHERE settled_at >= since AND settled_at < until OR state = 'pending' AND until = 'infinity'
$$;

-- Card payments beside the intent that they name, and intents that no payment names, of a window of
-- time: what each side says, as provider-pairs.ts has it. An intent that one call made and charged
-- may wait for whoever stores it, as long as its payment is pending and has no other. `is_left` to the workers is one that is
-- pending and, as waiting_outside has it, waits for nobody else.
CREATE FUNCTION provider_pairs(since timestamptz, until timestamptz)
RETURNS TABLE (id text, provider text, pair text, is_left boolean, since timestamptz)
LANGUAGE sql STABLE AS $$
  WITH touched AS MATERIALIZED (
    SELECT txn_id FROM auditor.settled_between($1, $2)
    WHERE kind = 'payment' AND payment_method IS NOT NULL
    UNION
    SELECT txn_id FROM auditor.provider_journal
    WHERE kind <> 'dispute' AND txn_id IS NOT NULL AND changed_at >= $1 AND changed_at < $2
  ), given_back AS MATERIALIZED (
    SELECT charge_id FROM auditor.returned
  ), beside AS (
    SELECT booked.txn_id::text AS id, booked.txn_id, booked.provider,
           booked.provider_intent_id AS intent_id,
           booked.closed_by, booked.state = 'pending' AS is_pending,
           CASE WHEN booked.state = 'pending' AND booked.authorized_at IS NOT NULL
             THEN 'authorized' ELSE booked.state END AS ledger,
           coalesce(booked.settled_at, booked.authorized_at, booked.created_at) AS since
    FROM touched
    CROSS JOIN LATERAL (
      SELECT * FROM ledger.transactions
      WHERE transactions.txn_id = touched.txn_id
        AND kind = 'payment' AND payment_method IS NOT NULL
      OFFSET 0
    ) AS booked
    UNION ALL
    SELECT intents.id, intents.txn_id, intents.provider, intents.id, NULL, false, 'none', intents.created_at
    FROM touched
    CROSS JOIN LATERAL (
      SELECT * FROM auditor.intents WHERE intents.txn_id = touched.txn_id OFFSET 0
    ) AS intents
    WHERE NOT EXISTS (
      SELECT FROM ledger.transactions
      WHERE transactions.txn_id = intents.txn_id
        AND transactions.kind = 'payment'
        AND (
          transactions.provider_intent_id = intents.id
          OR transactions.provider_intent_id IS NULL AND transactions.state = 'pending'
        )
        AND coalesce(transactions.provider, intents.provider) = intents.provider
      OFFSET 0
    )
  )
  SELECT beside.id, beside.provider,
         concat_ws(' ', ledger, CASE
           WHEN intents.id IS NULL THEN 'none'
           WHEN intents.status = 'failed' THEN 'canceled'
           WHEN intents.status <> 'pending' THEN intents.status
           WHEN intents.waits_for = 'partner' THEN 'held'
           ELSE coalesce(intents.waits_for, 'bank')
         END, charge),
         is_pending AND (
           intents.waits_for IS NULL OR intents.waits_for = 'partner' AND closed_by IS NOT NULL
         ),
         greatest(beside.since, intents.changed_at, charged_at)
  FROM beside
  LEFT JOIN LATERAL (
    SELECT * FROM auditor.intents
    WHERE intents.id = beside.intent_id AND intents.txn_id = beside.txn_id
      AND intents.provider = beside.provider
    OFFSET 0
  ) AS intents ON true
  CROSS JOIN LATERAL (
    SELECT max(charges.changed_at) AS charged_at, CASE
        WHEN bool_or(charges.status = 'succeeded' AND charge_id IS NULL) THEN 'succeeded'
        WHEN bool_or(charge_id IS NOT NULL) THEN 'returned'
        WHEN bool_or(charges.status = 'pending') THEN 'pending'
        WHEN count(*) > 0 THEN 'failed'
        ELSE 'none'
      END AS charge
    FROM auditor.charges
    LEFT JOIN given_back ON given_back.charge_id = charges.id
    WHERE charges.txn_id = beside.txn_id AND charges.intent_id = beside.intent_id
      AND charges.provider = beside.provider
    OFFSET 0
  ) AS charged
$$;

-- What a layer has of the payments and events that others have in a window of time. Nearly all of it
-- came within a minute of the window, so that is read whole, by blocks, and only what is not there is
-- looked up by its id. Each id by itself would be four blocks that are anywhere, however little of a
-- table a window is; and left to choose, the planner reads the whole of it for every window. So EXCEPT
-- and OFFSET 0 leave it no choice, and rows that are of no window may be among them.

CREATE FUNCTION accepted_of(since timestamptz, until timestamptz) RETURNS SETOF accepted
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT * FROM auditor.accepted
    WHERE first_seen >= since - interval '1 minute' AND first_seen < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT accepted.*
  FROM (
    SELECT txn_id, fingerprint FROM auditor.settled_between(since, until)
    EXCEPT SELECT txn_id, fingerprint FROM about
  ) AS others
  CROSS JOIN LATERAL (
    SELECT * FROM auditor.accepted
    WHERE accepted.txn_id = others.txn_id AND accepted.fingerprint = others.fingerprint OFFSET 0
  ) AS accepted
$$;

CREATE FUNCTION transactions_of(since timestamptz, until timestamptz)
RETURNS SETOF ledger.transactions
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT * FROM ledger.transactions
    WHERE settled_at >= since - interval '1 minute' AND settled_at < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT transactions.*
  FROM (
    (SELECT txn_id FROM auditor.accepted WHERE first_seen >= since AND first_seen < until
     UNION ALL
     SELECT txn_id FROM auditor.published WHERE first_seen >= since AND first_seen < until
     UNION ALL
     SELECT txn_id FROM ledger.outbox WHERE created_at >= since AND created_at < until)
    EXCEPT SELECT txn_id FROM about
  ) AS others
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.transactions WHERE transactions.txn_id = others.txn_id OFFSET 0
  ) AS transactions
$$;

CREATE FUNCTION entries_of(since timestamptz, until timestamptz) RETURNS SETOF ledger.entries
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT * FROM ledger.entries
    WHERE created_at >= since - interval '1 minute' AND created_at < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT entries.*
  FROM (
    SELECT txn_id FROM auditor.settled_between(since, until)
    EXCEPT SELECT txn_id FROM about
  ) AS others
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.entries WHERE entries.txn_id = others.txn_id OFFSET 0
  ) AS entries
$$;

CREATE FUNCTION outbox_of(since timestamptz, until timestamptz) RETURNS SETOF ledger.outbox
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT * FROM ledger.outbox
    WHERE created_at >= since - interval '1 minute' AND created_at < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT outbox.*
  FROM (
    (SELECT event_id FROM auditor.published WHERE first_seen >= since AND first_seen < until
     UNION ALL
     SELECT event_id FROM consumers.inbox WHERE received_at >= since AND received_at < until)
    EXCEPT SELECT event_id FROM about
  ) AS others
  CROSS JOIN LATERAL (
    SELECT * FROM ledger.outbox WHERE outbox.event_id = others.event_id OFFSET 0
  ) AS outbox
$$;

CREATE FUNCTION published_of(since timestamptz, until timestamptz) RETURNS SETOF published
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT * FROM auditor.published
    WHERE first_seen >= since - interval '1 minute' AND first_seen < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT published.*
  FROM (
    (SELECT event_id FROM ledger.outbox
     WHERE state = 'published' AND published_at >= since AND published_at < until
     UNION ALL
     SELECT event_id FROM consumers.inbox WHERE received_at >= since AND received_at < until)
    EXCEPT SELECT event_id FROM about
  ) AS others
  CROSS JOIN LATERAL (
    SELECT * FROM auditor.published WHERE published.event_id = others.event_id OFFSET 0
  ) AS published
$$;

-- Of every consumer, by the name under which it has its inbox. An event that not all of them received
-- then is looked up, for what others did at another time.
CREATE FUNCTION applied_of(since timestamptz, until timestamptz)
RETURNS TABLE (consumer text, event_id uuid, ordering_key uuid, sequence integer)
LANGUAGE sql STABLE AS $$
  WITH about AS NOT MATERIALIZED (
    SELECT consumer, event_id, ordering_key, sequence FROM consumers.inbox
    WHERE received_at >= since - interval '1 minute' AND received_at < until + interval '1 minute'
  )
  SELECT * FROM about
  UNION ALL
  SELECT inbox.*
  FROM (
    (SELECT event_id FROM auditor.published WHERE first_seen >= since AND first_seen < until
     UNION ALL
     SELECT event_id FROM ledger.outbox
     WHERE state = 'published' AND published_at >= since AND published_at < until)
    EXCEPT
    SELECT event_id FROM about
    GROUP BY event_id HAVING count(*) >= (SELECT known.consumers FROM consumers.known)
  ) AS others
  CROSS JOIN LATERAL (
    SELECT consumer, event_id, ordering_key, sequence FROM consumers.inbox
    WHERE inbox.event_id = others.event_id AND NOT (
      received_at >= since - interval '1 minute' AND received_at < until + interval '1 minute'
    )
    OFFSET 0
  ) AS inbox
$$;

-- Events that the auditor saw in a window and that are in the outbox, or left it by age as left_outbox
-- has it. While nothing has left, no transaction is looked at.
CREATE FUNCTION known_to_outbox(since timestamptz, until timestamptz) RETURNS TABLE (event_id uuid)
LANGUAGE sql STABLE AS $$
  (SELECT event_id FROM auditor.published WHERE first_seen >= since AND first_seen < until
   INTERSECT SELECT event_id FROM auditor.outbox_of(since, until))
  UNION
  SELECT published.event_id
  FROM auditor.published
  JOIN auditor.transactions_of(since, until) AS transactions USING (txn_id)
  WHERE published.first_seen >= since AND published.first_seen < until
    AND (SELECT reaped_before > '-infinity' FROM ledger.outbox_horizon)
    AND CASE published.event_type
      WHEN 'payment.requires_action' THEN
        CASE WHEN transactions.action_expires_at IS NOT NULL THEN transactions.created_at END
      WHEN 'payment.authorized' THEN
        CASE WHEN transactions.authorized_at IS NOT NULL THEN transactions.created_at END
      WHEN transactions.kind || '.' || transactions.state THEN transactions.settled_at
    END < (
      SELECT reaped_before + interval '1 hour' FROM ledger.outbox_horizon
    )
    AND published.event_id = auditor.derive_id('event', txn_id::text, published.event_type)
  UNION
  SELECT event_id
  FROM auditor.published
  WHERE first_seen >= since AND first_seen < until AND event_type = 'payment.disputed'
    AND auditor.left_outbox(txn_id, event_type, event_id)
$$;

-- Pending transactions that wait for a customer, their partner or a bank, by what the provider says:
-- payments, the refunds behind them, and refunds that the provider has accepted. A charge that is only
-- under way is none of them, and one of which the provider knows the end is for the workers to finish;
-- as is an authorised payment whose partner has asked for its capture or cancellation.
CREATE VIEW waiting_outside AS
SELECT transactions.txn_id, transactions.partner_id, transactions.created_at, journal.waits_for,
       coalesce(payments.action_expires_at, transactions.action_expires_at) AS action_expires_at,
       journal.created_at AS asked_at
FROM ledger.transactions
LEFT JOIN ledger.transactions AS payments ON payments.txn_id = transactions.payment_id
JOIN provider_journal AS journal
  ON journal.kind = CASE WHEN transactions.provider_refund_id IS NULL THEN 'intent' ELSE 'refund' END
 AND journal.id = CASE
   WHEN transactions.provider_refund_id IS NOT NULL THEN transactions.provider_refund_id
   WHEN payments.state = 'pending' THEN payments.provider_intent_id
   ELSE transactions.provider_intent_id
 END
 AND journal.provider = coalesce(transactions.provider, payments.provider)
WHERE transactions.state = 'pending' AND journal.waits_for IS NOT NULL
  AND (
    journal.waits_for <> 'partner'
    OR transactions.kind NOT IN ('capture', 'cancellation')
      AND coalesce(payments.closed_by, transactions.closed_by) IS NULL
  );

-- The auditor adds evidence and never changes any; of the provider's journal it keeps a copy.
GRANT SELECT, INSERT
ON accepted, accepted_refused, accepted_positions, accepted_lost, dead_letters, published,
  refused_messages
TO triplock_auditor;
GRANT UPDATE (next_offset, whole_at) ON accepted_positions TO triplock_auditor;
GRANT SELECT, INSERT, DELETE ON claims_unaccounted TO triplock_auditor;
GRANT UPDATE (before_offset, confirmed_at, lost_id) ON claims_unaccounted TO triplock_auditor;
GRANT SELECT, UPDATE (step, due_at, cursor, trouble, answered_at, walked_at) ON claim_walk
TO triplock_auditor;
GRANT UPDATE (copies, altered, last_seen) ON published TO triplock_auditor;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_journal TO triplock_auditor;
GRANT SELECT, INSERT, UPDATE ON provider_walks TO triplock_auditor;
GRANT SELECT ON provider_beginning TO triplock_auditor;
GRANT SELECT, UPDATE (
  run, due_at, took_ms, ended_at, drift, in_flight, in_flight_since, waiting, waiting_since
)
ON scheduled_audit TO triplock_auditor;
GRANT SELECT, INSERT ON audit_slices TO triplock_auditor;
GRANT SELECT, INSERT, DELETE ON doubted_slices TO triplock_auditor;
GRANT SELECT, UPDATE (next_nth, begun_at) ON full_audit TO triplock_auditor;
GRANT SELECT ON operator_acts, acknowledged, returned, intents, charges, refunds, disputes, waiting_outside
TO triplock_auditor;
