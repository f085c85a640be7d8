-- Reads one page of a partner's payments, newest first.
--
-- @partner, @limit rows at most. The caller puts in the index, and a filter of what is wished for:
-- @before and @after the time and id of the payment after which the page begins, @state,
-- @reference. A row: a payment. Fewer rows than @limit: the list ends here.
--
-- The index is kept in shards, since a partner's newest payments would all be written at one end of
-- it. Each shard gives its own newest, which are as many as the page may need of it.
SELECT listed.*
FROM UNNEST(GENERATE_ARRAY(0, 15)) AS wanted_shard,
  UNNEST(ARRAY(
    SELECT AS STRUCT *
    FROM transactions@{FORCE_INDEX=$INDEX, spanner_emulator.disable_query_null_filtered_index_check=true}
    WHERE partner_id = @partner AND kind = 'payment' AND shard = wanted_shard
      AND $FILTER
    ORDER BY created_at DESC, txn_id DESC
    LIMIT @limit
  )) AS listed
ORDER BY listed.created_at DESC, listed.txn_id DESC
LIMIT @limit
