-- What the settlement feed works in beside its inbox: the partners' settlement batches, its effect of
-- events, which commits with their inbox rows.
GRANT USAGE ON SCHEMA partners TO triplock_settlement;
GRANT SELECT, INSERT (partner_id, day, currency, gross, refunds, payments, refund_count),
      UPDATE (gross, refunds, payments, refund_count)
ON partners.settlement_batches TO triplock_settlement;

-- What was settled before there was a feed: Pub/Sub never delivers it to a subscription that is made
-- now. It is added from the ledger, and its events are known, those included that are not published
-- yet. Nobody settles anything meanwhile.
LOCK TABLE ledger.transactions, ledger.outbox IN SHARE MODE;
INSERT INTO partners.settlement_batches (partner_id, day, currency, gross, refunds, payments, refund_count)
SELECT partner_id, (settled_at AT TIME ZONE 'UTC')::date, currency,
       coalesce(sum(amount) FILTER (WHERE kind IN ('payment', 'capture')), 0),
       coalesce(sum(amount) FILTER (WHERE kind = 'refund'), 0),
       count(*) FILTER (WHERE kind IN ('payment', 'capture')),
       count(*) FILTER (WHERE kind = 'refund')
FROM ledger.transactions
WHERE state = 'succeeded' AND kind IN ('payment', 'capture', 'refund')
GROUP BY 1, 2, 3;
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
