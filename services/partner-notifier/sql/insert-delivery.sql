-- Makes the delivery of an event; runs in the transaction of the event's inbox row.
--
-- $1 event id, $2 partner id, $3 transaction id, $4 body.
-- Nothing happens when the event has a delivery: its inbox row left long ago, the delivery did not.
INSERT INTO deliveries (event_id, partner_id, txn_id, body)
VALUES ($1, $2, $3, $4)
ON CONFLICT (event_id) DO NOTHING
