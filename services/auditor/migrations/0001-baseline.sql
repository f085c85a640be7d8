-- What the auditor saw with its own eyes: the topic of accepted payments, its dead letters, the
-- events as published, and the provider's journal. Everything else it reads where it lies.

-- Every request that the topic of accepted payments holds, once, however often it was appended.
-- A refund need not say how much: what is not said is null.
CREATE TABLE accepted (
  txn_id uuid NOT NULL,
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  kind text NOT NULL CHECK (kind ~ '^[a-z]{3,10}$'),
  partner_id text NOT NULL,
  -- A refund's payment.
  payment_id uuid,
  currency text,
  amount bigint,
  -- Where it was seen first.
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (txn_id, fingerprint),
  CHECK ((kind = 'refund') = (payment_id IS NOT NULL)),
  CHECK (kind = 'refund' OR amount IS NOT NULL AND currency IS NOT NULL)
);

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

-- Messages that are no event, in the form that every consumer has. The other tables of an inbox the
-- auditor has not: it applies nothing and counts every copy, which is just what an inbox is there to
-- keep away.
CREATE TABLE refused_messages (
  consumer text NOT NULL,
  message_id text NOT NULL,
  reason text NOT NULL,
  detail text NOT NULL,
  data bytea NOT NULL,
  -- Not jsonb, which refuses a NUL.
  attributes json NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, message_id)
);

-- What the provider itself says it charged and gave back, as its lists showed it: the other side of
-- the ledger. It is a copy, and can be read again whole at any time.
CREATE TABLE provider_journal (
  kind text NOT NULL CHECK (kind IN ('intent', 'charge', 'refund')),
  -- The provider's.
  id text NOT NULL,
  status text NOT NULL CHECK (status IN ('unconfirmed', 'pending', 'succeeded', 'failed')),
  amount bigint NOT NULL,
  currency text NOT NULL,
  -- The provider's clock, whole seconds.
  created_at timestamptz NOT NULL,
  intent_id text,
  -- What every object of ours carries; null for a refund that somebody else made of a charge of ours.
  txn_id uuid,
  partner_id text,
  -- When the provider reported it last.
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, id)
);
CREATE INDEX provider_journal_by_transaction ON provider_journal (txn_id, kind);
CREATE VIEW intents AS SELECT * FROM provider_journal WHERE kind = 'intent';
CREATE VIEW charges AS SELECT * FROM provider_journal WHERE kind = 'charge';
CREATE VIEW refunds AS SELECT * FROM provider_journal WHERE kind = 'refund';

-- How far each list was read. A list is newest first, so it is known to its end only when it was
-- walked back to where an earlier walk began; one that was interrupted goes on where it was.
CREATE TABLE provider_walks (
  kind text PRIMARY KEY CHECK (kind IN ('intent', 'charge', 'refund')),
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
  walked_at timestamptz NOT NULL DEFAULT now()
);
-- Clocks differ by less than an hour.
INSERT INTO provider_walks (kind, since, known_until)
SELECT kind, beginning, beginning
FROM unnest(ARRAY['intent', 'charge', 'refund']) AS kind, (
  SELECT least(now(), (SELECT min(created_at) FROM ledger.transactions)) - interval '1 hour'
    AS beginning
) AS system;

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
  in_flight_since json NOT NULL DEFAULT '{}'
);
INSERT INTO scheduled_audit DEFAULT VALUES;

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

-- Whether an event that is no longer in the outbox was removed by age: the ledger has the
-- transaction whose end it reports, its id follows from that, and it was settled before what was
-- removed. The clock that settled is a worker's, so it may differ from the database's by some
-- minutes.
CREATE FUNCTION left_outbox(of_txn_id uuid, of_type text, of_event_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM ledger.transactions, ledger.outbox_horizon
    WHERE transactions.txn_id = of_txn_id
      AND transactions.kind || '.' || transactions.state = of_type
      AND transactions.settled_at < outbox_horizon.reaped_before + interval '1 hour'
      AND of_event_id = auditor.derive_id('event', of_txn_id::text, of_type)
  )
$$;

-- Pending transactions that wait for somebody outside: a payment from when its customer may confirm
-- it, the refunds behind it, and a refund that the provider has accepted and a bank has yet to carry
-- out.
CREATE VIEW waiting_outside AS
SELECT transactions.txn_id, transactions.created_at
FROM ledger.transactions
LEFT JOIN ledger.transactions AS payments ON payments.txn_id = transactions.payment_id
WHERE transactions.state = 'pending' AND (
  transactions.provider_intent_id IS NOT NULL
  OR transactions.provider_refund_id IS NOT NULL
  OR payments.state = 'pending' AND payments.provider_intent_id IS NOT NULL
);

-- Webhooks that their partner does not want: its server answered 410 Gone, and it has not set the
-- endpoint again. Once it has, what waits is sent, and what was given up is to be sent once more.
CREATE VIEW unwanted_deliveries AS
SELECT deliveries.event_id, deliveries.partner_id, deliveries.body
FROM notifier.deliveries
JOIN partners.webhook_endpoints ON webhook_endpoints.partner_id = deliveries.partner_id
WHERE deliveries.state <> 'delivered' AND webhook_endpoints.disabled_at IS NOT NULL;

-- The auditor adds evidence and never changes any; of the provider's journal it keeps a copy.
GRANT SELECT, INSERT
ON accepted, accepted_refused, accepted_positions, accepted_lost, dead_letters, published,
  refused_messages
TO triplock_auditor;
GRANT UPDATE (next_offset, whole_at) ON accepted_positions TO triplock_auditor;
GRANT UPDATE (copies, altered, last_seen) ON published TO triplock_auditor;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_journal TO triplock_auditor;
GRANT SELECT, UPDATE ON provider_walks TO triplock_auditor;
GRANT SELECT, UPDATE (run, due_at, took_ms, ended_at, drift, in_flight, in_flight_since)
ON scheduled_audit TO triplock_auditor;
GRANT SELECT ON operator_acts, intents, charges, refunds, waiting_outside, unwanted_deliveries
TO triplock_auditor;
