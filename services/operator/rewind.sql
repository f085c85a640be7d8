-- What the database has of what Kafka and Pub/Sub have passed: read to bring them back to it.

-- name: readEvidence
-- How far each partition of the accepted topic is surely in the ledger, by what the auditor kept.
--
-- $1 topic. A row for each partition that the auditor read: `read` is its next offset, `lacking`
-- the first offset before that whose request neither the ledger nor a dead letter accounts for,
-- null where there is none. The auditor's rows are committed with its progress, so they went back
-- with the database, as the ledger did.
WITH lacking AS (
  SELECT kafka_partition, min(kafka_offset) AS first
  FROM auditor.accepted
  WHERE NOT EXISTS (
      SELECT FROM ledger.transactions
      WHERE transactions.txn_id = accepted.txn_id
        AND transactions.fingerprint = accepted.fingerprint
    )
    AND NOT EXISTS (
      SELECT FROM auditor.dead_letters
      WHERE dead_letters.txn_id = accepted.txn_id
        AND dead_letters.fingerprint = accepted.fingerprint
    )
  GROUP BY kafka_partition
)
SELECT kafka_partition AS partition, next_offset AS read, first AS lacking
FROM auditor.accepted_positions LEFT JOIN lacking USING (kafka_partition)
WHERE topic = $1

-- name: readSessions
-- Who is at work on this database: the services, by the names that they give themselves.
--
-- No parameters. A row: one of them. One that has been idle for long may hold no connection.
SELECT DISTINCT application_name AS name
FROM pg_stat_activity
WHERE datname = current_database() AND usename LIKE 'triplock\_%'
ORDER BY name

-- name: forgetWarmMarkers
-- Makes claims cold that are kept in this database: they went back with it. Where they are
-- elsewhere there is no row.
--
-- No parameters. The ledger answers for claims that are cold, for a day.
DELETE FROM claims.warm_markers

-- name: newestPublished
-- When the newest event was published that the database knows of, or null.
--
-- No parameters. Always one row.
SELECT max(published_at) AS "publishedAt" FROM ledger.outbox WHERE state = 'published'

-- name: noteRewind
-- Notes that the database was set back, for whoever decides something of what was accepted before.
--
-- $1 a time before the first commit that was lost. No rows.
INSERT INTO ledger.rewinds (since) VALUES ($1)

-- name: beginRewind
-- Keeps workers from going on with a database that is rewound by half, should this end in between.
-- Where somebody has taken the table's row away it is there again.
--
-- No parameters. Always one row: the server that answers.
INSERT INTO ledger.continuity (set_back_at) VALUES (now())
ON CONFLICT (only_row) DO UPDATE SET set_back_at = coalesce(continuity.set_back_at, now())
RETURNING ledger.this_server() AS server

-- name: endRewind
-- Notes that a server has all that was told, and what the workers' group has before it all that was
-- accepted, so that workers go on.
--
-- $1 the server that answered when it was begun, $2 the archive's next offset of each partition, $3
-- that of the workers' group. A row: it is noted. No row: another server answers by now, which may
-- lack what was brought back.
UPDATE ledger.continuity
SET server = $1::text, archived = $2::jsonb, posted = $3::jsonb, posted_on = $1::text,
    set_back_at = NULL
WHERE ledger.this_server() = $1::text
RETURNING server
