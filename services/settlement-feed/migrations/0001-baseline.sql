-- What each partner is owed: its payments and refunds of a day by currency. A batch is the settlement
-- feed's effect of events and commits with their inbox rows.

CREATE TABLE batches (
  partner_id text NOT NULL,
  -- The UTC day in which the ledger settled them. No day is closed: an event that comes late, or a
  -- topic that is replayed, is added to its own day.
  day date NOT NULL,
  currency text NOT NULL,
  -- In minor units.
  gross bigint NOT NULL CHECK (gross >= 0),
  refunds bigint NOT NULL CHECK (refunds >= 0),
  -- Below zero on a day on which more was refunded than paid.
  net bigint GENERATED ALWAYS AS (gross - refunds) STORED,
  payments bigint NOT NULL CHECK (payments >= 0),
  refund_count bigint NOT NULL CHECK (refund_count >= 0),
  PRIMARY KEY (partner_id, day, currency)
);

-- What was added is not taken out: this holds for the owner of the table too.
CREATE FUNCTION refuse_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of %.% is refused: batches only grow', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
END
$$;
CREATE TRIGGER batches_only_grow BEFORE UPDATE ON batches
  FOR EACH ROW WHEN (
    (NEW.partner_id, NEW.day, NEW.currency) IS DISTINCT FROM (OLD.partner_id, OLD.day, OLD.currency)
    OR NEW.gross < OLD.gross OR NEW.refunds < OLD.refunds
    OR NEW.payments < OLD.payments OR NEW.refund_count < OLD.refund_count
  ) EXECUTE FUNCTION refuse_batch();
CREATE TRIGGER batches_are_kept BEFORE DELETE OR TRUNCATE ON batches
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_batch();

GRANT SELECT, INSERT (partner_id, day, currency, gross, refunds, payments, refund_count),
      UPDATE (gross, refunds, payments, refund_count)
ON batches TO triplock_settlement;
GRANT USAGE ON SCHEMA settlement TO triplock_gateway;
GRANT SELECT ON batches TO triplock_gateway, triplock_auditor;

-- What was settled before there was a feed: Pub/Sub never delivers it to a subscription that is made
-- now. It is added from the ledger, and its events are known, those included that are not published
-- yet. Nobody settles anything meanwhile.
LOCK TABLE ledger.transactions, ledger.outbox IN SHARE MODE;
INSERT INTO batches (partner_id, day, currency, gross, refunds, payments, refund_count)
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
