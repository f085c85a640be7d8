-- Partners see their own deliveries, and ask for one again, through the gateway.

-- What the last recorded attempt came to, in a word that may be shown: `last_error` may name what
-- is no partner's business.
ALTER TABLE deliveries ADD COLUMN last_outcome text
  CHECK (last_outcome IN ('delivered', 'refused', 'unanswered', 'unsendable'));
UPDATE deliveries SET last_outcome = CASE
  WHEN last_error IS NULL THEN 'delivered'
  WHEN last_status IS NOT NULL THEN 'refused'
  ELSE 'unanswered'
END
WHERE last_status IS NOT NULL OR last_error IS NOT NULL;

-- A partner's list, page by page; those that were given up are few and looked for most.
CREATE INDEX deliveries_of_partner ON deliveries (partner_id, created_at DESC, event_id DESC);
CREATE INDEX deliveries_given_up ON deliveries (partner_id, created_at DESC, event_id DESC)
  WHERE state = 'failed';

-- Everything of a delivery but its body and its sender. Columns that are the table's own can be
-- updated through it.
CREATE VIEW partner_deliveries AS
SELECT event_id, partner_id, txn_id, body::json ->> 'type' AS type, state, attempts,
       last_status, nullif(last_outcome, 'delivered') AS last_error,
       created_at, first_attempt_at, next_attempt_at, finished_at,
       lease_owner IS NOT NULL AS being_sent
FROM deliveries;

-- The gateway sees deliveries by this view alone, and changes nothing but when they are due.
GRANT USAGE ON SCHEMA notifier TO triplock_gateway;
GRANT SELECT, UPDATE (state, first_attempt_at, next_attempt_at, finished_at)
ON partner_deliveries TO triplock_gateway;
