-- What the settlement feed works in beside its inbox: the partners' settlement batches, its effect of
-- events, which commits with their inbox rows.
GRANT USAGE ON SCHEMA partners TO triplock_settlement;
GRANT EXECUTE ON FUNCTION partners.add_settlements, partners.close_settlement_days TO triplock_settlement;

-- Until when all that was told is applied here, at most a minute ago: who tells something is done with it
-- by then. `since` is as of when that was known last; what was told before is not looked at again, and of
-- what was told after it two minutes at a time.
--
-- What can never be published, and what waits here for it, is not waited for: once it comes it is late.
-- On a server that is not known to have all that was told nothing is said. Where the ledger is another
-- store, it is as of the copy that the audit keeps of it, and nothing between two parts of a backlog.
-- Its body is a text: a dump that is put into the database may drop the tables and make them anew.
CREATE FUNCTION told_and_applied(since timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH known AS MATERIALIZED (
    SELECT least(
      now() - interval '1 minute',
      since + interval '2 minutes',
      (SELECT CASE WHEN NOT behind THEN to_timestamp(until_micros / 1e6) - interval '1 minute' END
       FROM ledger.copied),
      (SELECT min(created_at) FROM ledger.outbox WHERE state = 'pending')
    ) AS until,
    CASE WHEN EXISTS (SELECT FROM ledger.copied)
      THEN EXISTS (SELECT FROM ledger.copied WHERE NOT behind)
      ELSE EXISTS (
        SELECT FROM ledger.continuity WHERE server = ledger.this_server() AND set_back_at IS NULL
      )
    END AS is_whole
  )
  SELECT CASE WHEN known.is_whole THEN least(known.until, (
    SELECT min(outbox.created_at)
    FROM ledger.outbox
    LEFT JOIN LATERAL (
      SELECT last_sequence FROM settlement.cursors
      WHERE consumer = 'settlement-feed' AND ordering_key = outbox.payment_id OFFSET 0
    ) AS cursors ON true
    WHERE outbox.created_at >= since - interval '1 minute'
      AND outbox.created_at < known.until
      AND outbox.state = 'published' AND outbox.sequence > coalesce(cursors.last_sequence, 0)
      AND NOT EXISTS (
        SELECT FROM settlement.early_events
        WHERE early_events.consumer = 'settlement-feed' AND early_events.event_id = outbox.event_id
        OFFSET 0
      )
  )) END
  FROM known
  WHERE since IS NOT NULL
$$;
REVOKE EXECUTE ON FUNCTION told_and_applied FROM PUBLIC;
GRANT EXECUTE ON FUNCTION told_and_applied TO triplock_settlement;
GRANT SELECT ON partners.settlement_batches, partners.settlement_lines, partners.settlement_calendar
TO triplock_settlement;

-- What was settled before there was a feed: Pub/Sub never delivers it to a subscription that is made
-- now. It is added from the ledger, and its events are known, those included that are not published
-- yet. Nobody settles anything meanwhile.
LOCK TABLE ledger.transactions, ledger.outbox IN SHARE MODE;
SELECT partners.add_settlements(
  array_agg(partner_id), array_agg(txn_id), array_agg(kind), array_agg(currency),
  array_agg(CASE kind WHEN 'refund' THEN -amount ELSE amount END), array_agg(settled_at)
)
FROM ledger.transactions
WHERE state = 'succeeded' AND kind IN ('payment', 'capture', 'refund');
INSERT INTO inbox (consumer, event_id, payload_hash, ordering_key, sequence)
SELECT 'settlement-feed', event_id, encode(sha256(convert_to(payload, 'UTF8')), 'hex'), payment_id,
       sequence
FROM ledger.outbox;
ALTER TABLE cursors DISABLE TRIGGER cursors_begin_at_one;
INSERT INTO cursors (consumer, ordering_key, last_sequence)
SELECT 'settlement-feed', txn_id, events FROM ledger.transactions WHERE events > 0;
ALTER TABLE cursors ENABLE TRIGGER cursors_begin_at_one;
-- What had left the outbox before is applied, and was never in this inbox: as if it had left.
INSERT INTO inbox_horizons (consumer, reaped_before, events)
SELECT 'settlement-feed', reaped_before, events FROM ledger.outbox_horizon WHERE events > 0;
-- So all that was told before this is applied.
UPDATE partners.settlement_calendar SET complete_through = now() - interval '1 minute'
WHERE complete_through IS NULL;
