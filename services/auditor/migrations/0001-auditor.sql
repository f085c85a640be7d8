-- What the auditor saw with its own eyes: the topic of accepted payments, its dead letters and the
-- events as published. Everything else it reads where it lies.

-- Every request that the topic of accepted payments holds, once, however often it was appended.
CREATE TABLE accepted (
  txn_id uuid NOT NULL,
  fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  partner_id text NOT NULL,
  currency text NOT NULL,
  amount bigint NOT NULL,
  -- Where it was seen first.
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (txn_id, fingerprint)
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
  currency text NOT NULL,
  amount bigint NOT NULL,
  first_seen timestamptz NOT NULL DEFAULT now(),
  last_seen timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX published_by_transaction ON published (txn_id);

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

GRANT SELECT, INSERT ON accepted, accepted_refused, dead_letters, published TO triplock_auditor;
GRANT UPDATE (copies, altered, last_seen) ON published TO triplock_auditor;
