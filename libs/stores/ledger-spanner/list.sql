-- Reads one page of a partner's payments, newest first.
--
-- @partner, @limit rows and @bytes at most. The caller puts in the index, and a filter of what is
-- wished for: @before and @after the time and id of the payment after which the page begins,
-- @state, @reference. A row: a payment, and whether there is one behind it. No row: the list ended
-- before.
--
-- The index is kept in shards, since a partner's newest payments would all be written at one end of
-- it. Each shard gives its own newest, which are as many as the page may need of it.
--
-- The page ends before the payment with whose texts it would have more bytes, but never before the
-- first; the other fields of a payment are a kilobyte at most. What it leaves out does not leave
-- the server.
WITH behind AS (
  SELECT ARRAY(
    SELECT AS STRUCT listed.*
    FROM UNNEST(GENERATE_ARRAY(0, 15)) AS wanted_shard,
      UNNEST(ARRAY(
        SELECT AS STRUCT *
        FROM transactions@{FORCE_INDEX=$INDEX, spanner_emulator.disable_query_null_filtered_index_check=true}
        WHERE partner_id = @partner AND kind = 'payment' AND shard = wanted_shard
          AND $FILTER
        ORDER BY created_at DESC, txn_id DESC
        LIMIT @rows
      )) AS listed
    ORDER BY listed.created_at DESC, listed.txn_id DESC
    LIMIT @rows
  ) AS payments
)
SELECT listed.*, place + 1 < ARRAY_LENGTH(behind.payments) AS more
FROM behind, UNNEST(behind.payments) AS listed WITH OFFSET AS place
WHERE place < @limit AND (
  place = 0
  OR (
    SELECT SUM(
      1024 + COALESCE(BYTE_LENGTH(before.details), 0)
      + COALESCE(BYTE_LENGTH(before.failure_message), 0)
    )
    FROM UNNEST(behind.payments) AS before WITH OFFSET AS place_before
    WHERE place_before <= place
  ) <= @bytes
)
ORDER BY place
