-- Guard 3 at a receiver that keeps its data in Cloud Spanner: the tables of the PostgreSQL inbox, in the
-- database of the consumer's own tables, so that an inbox row and the effect commit together.
--
-- Keys go on with a hash behind the consumer, so they have no hot end, and nothing is indexed by time.
-- Spanner has no triggers: that nothing is unmade is kept by the code, and by the rights of a database
-- role where fine-grained access control is used (docs/ledgers.md).
--
-- Each statement does no harm a second time, because a file that ended half way runs again whole.

-- One row per event that took effect. Spanner itself takes rows out, some time after they are old
-- enough: it may come late, and no promise rests on it. The cursors stay for ever and know a copy that
-- comes even later by its sequence.
CREATE TABLE IF NOT EXISTS inbox (
  consumer STRING(64) NOT NULL,
  event_id STRING(36) NOT NULL,
  -- SHA-256 of the bytes as published, lower-case hex.
  payload_hash STRING(64) NOT NULL,
  payment_id STRING(36) NOT NULL,
  -- Null for an event that settles nothing and so has no place in the payment's order.
  sequence INT64,
  received_at TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
  -- The same, and null for an event without a sequence: no cursor would know it, so it stays for ever.
  forgotten_from TIMESTAMP OPTIONS (allow_commit_timestamp = true),
  CONSTRAINT inbox_sequence_counts CHECK (sequence BETWEEN 1 AND 2147483647)
) PRIMARY KEY (consumer, event_id), ROW DELETION POLICY (OLDER_THAN(forgotten_from, INTERVAL 30 DAY));

-- How far a consumer is in each payment: every sequence up to this one took effect, none after it.
CREATE TABLE IF NOT EXISTS inbox_cursors (
  consumer STRING(64) NOT NULL,
  payment_id STRING(36) NOT NULL,
  last_sequence INT64 NOT NULL,
  CONSTRAINT cursor_counts CHECK (last_sequence BETWEEN 1 AND 2147483647)
) PRIMARY KEY (consumer, payment_id);

-- Copies of a known event with other bytes. None was applied, and each needs a person.
CREATE TABLE IF NOT EXISTS inbox_altered_copies (
  consumer STRING(64) NOT NULL,
  event_id STRING(36) NOT NULL,
  payload_hash STRING(64) NOT NULL,
  known_hash STRING(64) NOT NULL,
  copies INT64 NOT NULL,
  first_seen TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true),
  last_seen TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (consumer, event_id, payload_hash);

-- Messages that are no event of ours, with their bytes as received, under a hash of their id: the
-- broker's ids grow with the time. They are acknowledged, because no redelivery makes them better.
CREATE TABLE IF NOT EXISTS inbox_refused_messages (
  consumer STRING(64) NOT NULL,
  id STRING(36) NOT NULL,
  message_id STRING(MAX) NOT NULL,
  reason STRING(MAX) NOT NULL,
  detail STRING(MAX) NOT NULL,
  data BYTES(MAX) NOT NULL,
  -- JSON as text.
  attributes STRING(MAX) NOT NULL,
  first_seen TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (consumer, id);
